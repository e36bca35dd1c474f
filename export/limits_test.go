package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// repeated returns a document with a text repeated, thousands of times.
func repeated(head, text string, count int, tail string) io.Reader {
	readers := []io.Reader{strings.NewReader(head)}
	block := strings.Repeat(text, 1000)
	for range count / 1000 {
		readers = append(readers, strings.NewReader(block))
	}
	return io.MultiReader(append(readers, strings.NewReader(tail))...)
}

// numbered writes a text for each number.
func numbered(head, format string, count int, tail string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range count {
		fmt.Fprintf(&b, format, i)
	}
	b.WriteString(tail)
	return b.String()
}

// What takes more memory than there may be is an error that names the limit.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const (
		xmlHead = `<ccmap version="1"><methods><method name="m"/></methods>`
		many    = 100_000
	)
	long := strings.Repeat("x", 1<<20)
	for name, in := range map[string]string{
		"xml, names":         numbered(`<ccmap version="1"><methods>`, `<method name="%d"/>`, many, ``),
		"xml, nodes":         numbered(xmlHead+`<nodes><node parent="0" method="0"/>`, `<node parent="1" offset="%d" method="0"/>`, many, ``),
		"xml, equal nodes":   xmlHead + `<nodes>` + strings.Repeat(`<node parent="0" method="0"/>`, 500_000),
		"xml, attributes":    `<ccmap version="1"><nodes><node ` + strings.Repeat(`a="" `, many),
		"xml, pruned edges":  numbered(xmlHead+`<pruned_edges>`, `<edge caller="0" offset="%d" callee="0"/>`, many, ``),
		"xml, comments":      `<ccmap version="1"><meta>` + strings.Repeat(`<comment/>`, many),
		"json, intervals":    `{"ccmap_version":1,"meta":{"intervals":[{}` + strings.Repeat(`,{}`, many),
		"json, unknown":      `{"ccmap_version":1,"x":[0` + strings.Repeat(`,0`, many),
		"json, points":       numbered(`{"ccmap_version":1,"methods":[{"name":"m"}],"points":[{"origin":"burst","kind":"block","method":0}`, `,{"origin":"burst","kind":"block","method":0,"offset":%d}`, many, ``),
		"json, lines":        numbered(`{"ccmap_version":1,"methods":[{"name":"m","coordinate":"machine"}],"lines":[{"method":0,"offset":-2,"line":1}`, `,{"method":0,"offset":%d,"line":1}`, many, ``),
		"folded, line":       long,
		"folded, frames":     numbered("", "a%d 1\n", many, ""),
		"folded, ours":       numbered("", "a+%d 1\n", many, ""),
		"pprof, functions":   "\x32\x00" + strings.Repeat("\x2a\x00", many),
		"pprof, strings":     strings.Repeat("\x32\x00", 1<<20),
		"pprof, comments":    "\x32\x00\x32\x80\x80\x40" + long + strings.Repeat("\x6a\x01\x01", 100),
		"zstd, window":       "\x28\xb5\x2f\xfd\x00\x88" + long, // 128 MiB
		"pprof, file name":   fileOfManyFunctions(t, long),
		"pprof, locations":   fileOfManyLocations(t, many),
		"pprof, description": "\x32\x00\x32\x80\x80\x40ccmapd {\"version\":1,\"intervals\":[0" + strings.Repeat(",0", 1<<19)[:1<<20-36] + "]}\x6a\x01\x01",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ReadOptions{MaxMemory: 3 << 20}
			_, _, err := Read(strings.NewReader(in), o)
			if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "more than 3 MiB") {
				t.Errorf("got %v", err)
			}
			part, err := ReadPart(strings.NewReader(in), o)
			if err == nil {
				err = NewSum(ccmap.New(ccmap.Options{})).Add(part, Weight{})
			}
			if !errors.Is(err, ErrMemory) {
				t.Errorf("as a part: %v", err)
			}
		})
	}
}

// fileOfManyFunctions is a profile whose functions share the name of a file.
func fileOfManyFunctions(t *testing.T, file string) string {
	p := &profile.Profile{SampleType: []*profile.ValueType{samplesType.proto()}}
	for i := range 10 {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprint(i), Filename: file}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1}})
	}
	return encodeProfile(t, p)
}

// fileOfManyLocations is a profile of locations with ids in no order.
func fileOfManyLocations(t *testing.T, n int) string {
	p := &profile.Profile{SampleType: []*profile.ValueType{samplesType.proto()}}
	for i := range uint64(n) {
		p.Location = append(p.Location, &profile.Location{ID: (i + 1) << 32})
	}
	return encodeProfile(t, p)
}

// What a file repeats takes no memory each time.
func TestEqualSamplesTakeNoMemory(t *testing.T) {
	t.Parallel()
	n := 3 * maxListed.samples
	profile := "\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x07samples\x32\x05count\x32\x01f\x2a\x04\x08\x01\x10\x03" +
		"\x22\x06\x08\x01\x22\x02\x08\x01\x22\x06\x08\x02\x22\x02\x08\x01"
	in := func() io.Reader {
		return repeated(profile, "\x12\x04\x08\x01\x10\x01\x12\x06\x08\x02\x08\x01\x10\x01", n, "")
	}
	o := ReadOptions{MaxMemory: 100 << 20}
	m, _, err := Read(in(), o)
	if err != nil || m.Len() != 3 || m.Snapshot().Total().Samples != int64(n/1000*2000) {
		t.Fatalf("%v; %d nodes, %v", err, m.Len(), m.Snapshot().Total())
	}
	p, err := ReadPart(in(), o)
	if err != nil {
		t.Fatal(err)
	}
	sum := ccmap.New(ccmap.Options{})
	if err := NewSum(sum).Add(p, Weight{}); err != nil || sum.Snapshot().Total() != m.Snapshot().Total() {
		t.Errorf("as a part: %v, %v", err, sum.Snapshot().Total())
	}
}

// Labels of receivers say of a method what it is, wherever they stand.
func TestReceiversOfManySamples(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	caller := m.Names().Intern(ccmap.Method{Name: "a"})
	callee := m.Names().Intern(ccmap.Method{Name: "b", Receiver: "T"})
	outer := m.Child(m.Root(), ccmap.NoOffset, caller)
	for i := range uint32(maxListed.samples) {
		m.Add(m.Child(m.Child(outer, i, callee), 1, caller), ccmap.Counters{Samples: 1})
	}
	m.Add(m.Child(outer, uint32(maxListed.samples), callee), ccmap.Counters{Samples: 1})
	s := decode(t, encode(t, Pprof, m.Snapshot()))
	id, _ := s.Names().Lookup("b", "")
	if got := s.Names().At(id).Receiver; got != "T" || s.Total() != m.Snapshot().Total() {
		t.Errorf("receiver %q, total %v of %v", got, s.Total(), m.Snapshot().Total())
	}
}

// The limits of control groups are those of all parents; a container may not see its own
// path.
func TestMemoryOfControlGroups(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	for name, content := range map[string]string{
		"memory.max":                              "800\n",
		"a/memory.max":                            "max\n",
		"a/b/memory.max":                          "900\n",
		"memory/memory.limit_in_bytes":            "9223372036854771712\n",
		"memory/docker/c/memory.limit_in_bytes":   "500\n",
		"memory/docker/c/d/memory.limit_in_bytes": "700\n",
	} {
		path := filepath.Join(mount, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(content), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for list, want := range map[string]int64{
		"":                             math.MaxInt64,
		"0::/a/b\n":                    800,
		"0::/outside/this\n":           800,
		"4:memory:/docker/c/d\n":       500,
		"4:memory:/docker/none\n":      9223372036854771712,
		"3:cpu,cpuacct:/\n":            math.MaxInt64,
		"4:memory:/docker/c\n0::/a/b/": 500,
		"nonsense":                     math.MaxInt64,
	} {
		if got := groupMemory(mount, list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}

// TestLineReaderSkipsWhiteSpace counts the reads of a document of white space. The decoder of JSON
// scans all white space anew after each, so a read for each line would take the square of its length.
func TestLineReaderSkipsWhiteSpace(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, white := range []string{"\n", " \n", "\r\n\t"} {
		in := strings.Repeat(white, size/len(white)) + "{\n}"
		source := bufio.NewReader(strings.NewReader(in))
		buffer, read, reads := make([]byte, 1<<16), 0, 0
		for {
			n, err := lineReader{source}.Read(buffer)
			if err != nil {
				break
			}
			read, reads = read+n, reads+1
		}
		if most := len(in)/source.Size() + 10; read != len(in) || reads > most {
			t.Errorf("%q: %d bytes of %d in %d reads, want at most %d", white, read, len(in), reads, most)
		}
	}
}
