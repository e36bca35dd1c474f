package export

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// fuzzLimits keep one input to a few MiB.
var fuzzLimits = ReadOptions{MaxBytes: 8 << 20, MaxMethods: 1000, MaxNodes: 10_000, MaxDepth: 1000}

// fuzzRead holds each reader against any bytes: no panic, and a map that it
// hands out can be written in each format and is the same when read again. As a
// part of a sum it is the same as well.
func fuzzRead(f *testing.F, format Format, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	fuzzMaps(f, format)
	f.Fuzz(checkRead)
}

// fuzzMaps adds maps in a format that is written.
func fuzzMaps(f *testing.F, format Format) {
	f.Add(encode(f, format, small().Snapshot()))
	f.Add(encode(f, format, chain(3).Snapshot()))
	f.Add(encode(f, format, pruned().Snapshot()))
	f.Add(encode(f, format, points().Snapshot()))
	f.Add(encode(f, format, wasm().Snapshot()))
	f.Add(encode(f, format, located().Snapshot()))
}

func checkRead(t *testing.T, data string) {
	checkScanned(t, data)
	m, _, err := Read(strings.NewReader(data), fuzzLimits)
	if err != nil {
		return
	}
	s := m.Snapshot()
	for _, f := range []Format{XML, JSON} {
		if diff := diffContent(s, decode(t, encode(t, f, s))); diff != "" {
			t.Fatalf("%v (-want +got):\n%s", f, diff)
		}
	}
	encode(t, Pprof, s)
	checkFolded(t, s)
	checkPart(t, data, s)
}

// checkFolded holds that the units which folded stacks can say are written, and
// only those.
func checkFolded(t *testing.T, s *ccmap.Snapshot) {
	unit := s.Meta().Unit
	said := unit == ccmap.CPUTime || unit == ccmap.SampleCount
	if err := Write(io.Discard, Folded, s); (err == nil) != said {
		t.Fatalf("write %q as folded stacks: %v", unit, err)
	}
}

func checkPart(t *testing.T, data string, want *ccmap.Snapshot) {
	p, err := ReadPart(strings.NewReader(data), fuzzLimits)
	sum := ccmap.New(ccmap.Options{})
	if err == nil {
		err = NewSum(sum).Add(p, Weight{})
	}
	if err == nil {
		err = sum.CheckValid()
	}
	if err != nil || sum.Snapshot().Total() != want.Total() {
		t.Fatalf("as a part: %v, %v instead of %v", err, sum.Snapshot().Total(), want.Total())
	}
	if diff := cmp.Diff(pointsOf(want, XML), pointsOf(sum.Snapshot(), XML)); diff != "" {
		t.Fatalf("as a part (-want +got):\n%s", diff)
	}
}

func FuzzReadXML(f *testing.F) {
	fuzzRead(f, XML, `<ccmap version="1"/>`, `<ccmap version="1"><methods><method name="\xff\\"/></methods><nodes><node parent="0" method="0" samples="1"/></nodes></ccmap>`)
}

func FuzzReadJSON(f *testing.F) {
	fuzzRead(f, JSON, `{"ccmap_version":1}`, `{"ccmap_version":1,"methods":[{"name":"\\xff"}],"nodes":[{"parent":0,"method":0,"time_ns":5}]}`)
}

func FuzzReadFolded(f *testing.F) {
	fuzzRead(f, Folded, "a;b;c 1\n", `a\x3b\:(I)+?;b+-3 7`)
}

func FuzzReadPprof(f *testing.F) {
	fuzzRead(f, Pprof, "\x0a\x04\x08\x01\x10\x02\x32\x00")
}

func FuzzReadJFR(f *testing.F) {
	f.Add(plainRecording(f, "async"))
	f.Fuzz(checkRead)
}

func FuzzReadCompressed(f *testing.F) {
	fuzzRead(f, Folded, compressed(f, Gzip, "a 1\n"), compressed(f, Zstd, "a 1\n"), compressed(f, Zstd, compressed(f, Gzip, "a 1\n")))
}
