package export

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// located is small(), with addresses: main.main calls Walk inlined and Sum, and Sum is
// sampled.
func located() *ccmap.Map {
	m := small()
	names := m.Names()
	id := func(name string) ccmap.MethodID { id, _ := names.Lookup(name, ""); return id }
	main, walk, sum := id("main.main"), id("main.(*Tree).Walk"), id("main.Sum[struct { X int; Y int }]")
	at := func(method ccmap.MethodID, offset uint32) ccmap.Frame {
		return ccmap.Frame{Method: method, Offset: offset}
	}
	names.SetMapping("go-build-id", ccmap.Mapping{File: "/usr/bin/demo", Start: 0x555555001000, Limit: 0x555555009000, Offset: 0x1000})
	names.SetMapping("/lib/libc.so.6", ccmap.Mapping{File: "/lib/libc.so.6", Start: 0x100000000, Limit: 0x400000000}) // where other coordinates are
	names.SetInlined(at(main, 3), walk)
	names.SetAddress([]ccmap.Frame{at(walk, 5), at(main, 3)}, true, 0x1230)
	names.SetAddress([]ccmap.Frame{at(walk, 5)}, true, 0x4560)
	names.SetAddress([]ccmap.Frame{at(sum, 2)}, false, 0x1234)
	names.SetAddress([]ccmap.Frame{at(main, 9)}, true, 0xffff00) // out of the mapping
	names.SetAddress([]ccmap.Frame{at(id("memcpy"), 1)}, false, 0x42)
	return m
}

func TestPprofHasAddresses(t *testing.T) {
	t.Parallel()
	p, err := profile.ParseUncompressed([]byte(encode(t, Pprof, located().Snapshot())))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	if m := p.Mapping[0]; m.Start != 0x555555001000 || m.Limit != 0x555555009000 || m.Offset != 0x1000 || m.File != "/usr/bin/demo" || m.BuildID != "go-build-id" {
		t.Errorf("mapping %+v", m)
	}
	got := make(map[uint64][]string)
	for _, l := range p.Location {
		if l.Address != 0 {
			for _, line := range l.Line {
				got[l.Address] = append(got[l.Address], line.Function.Name)
			}
		}
	}
	want := map[uint64][]string{
		0x555555001230: {"main.(*Tree).Walk", "main.main"},
		0x555555004560: {"main.(*Tree).Walk"},
		0x555555001234: {"main.Sum[struct { X int; Y int }]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions by address (-want +got):\n%s", diff)
	}
}

func TestPprofRestoresAddresses(t *testing.T) {
	t.Parallel()
	first := encode(t, Pprof, located().Snapshot())
	if second := encode(t, Pprof, decode(t, first)); first != second {
		t.Errorf("read and written again (-first +second):\n%s", cmp.Diff(first, second))
	}
	sum := ccmap.New(ccmap.Options{})
	if err := sum.Merge(decode(t, first)); err != nil {
		t.Fatal(err)
	}
	if merged := encode(t, Pprof, sum.Snapshot()); first != merged {
		t.Errorf("merged into an empty map (-first +merged):\n%s", cmp.Diff(first, merged))
	}
}

// Our writer writes the bytes that google/pprof writes of the same profile.
func TestPprofIsWrittenAsPeer(t *testing.T) {
	t.Parallel()
	check := func(t interface{ Fatalf(string, ...any) }, data string) {
		p, err := profile.ParseUncompressed([]byte(data))
		var again strings.Builder
		if err == nil {
			err = p.WriteUncompressed(&again)
		}
		if err != nil || again.String() != data {
			t.Fatalf("%v (-ours +google/pprof):\n%s", err, cmp.Diff(data, again.String()))
		}
	}
	for _, m := range golden {
		check(t, encode(t, Pprof, m().Snapshot()))
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, mustEncode(t, Pprof, drawPruned(t, buildLocated).Snapshot()))
	})
}

// What runtime/pprof knows of the compiler's addresses is known after reading.
func TestConvertKeepsAddresses(t *testing.T) {
	t.Parallel()
	source, err := ccmapFile(compilerProfile(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseUncompressed([]byte(encode(t, Pprof, source)))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Location {
		if l.Address == 0 && l.Line[0].Function.Name != ccmap.UnknownName {
			t.Errorf("location %d, of %s, has no address", l.ID, l.Line[0].Function.Name)
		}
	}
	if first := encode(t, Pprof, source); encode(t, Pprof, decode(t, first)) != first {
		t.Error("read and written again it is another profile")
	}
}

// What stands between two profiles of pprof takes no address away.
func TestXMLAndJSONKeepAddresses(t *testing.T) {
	t.Parallel()
	source, err := ccmapFile(compilerProfile(t))
	if err != nil {
		t.Fatal(err)
	}
	direct := encode(t, Pprof, source)
	for _, f := range []Format{XML, JSON} {
		if encode(t, Pprof, decode(t, encode(t, f, source))) != direct {
			t.Errorf("by %v it is another profile", f)
		}
	}
}

func ccmapFile(path string) (*ccmap.Snapshot, error) {
	m, _, err := ReadFile(path, ReadOptions{})
	if err != nil {
		return nil, err
	}
	return m.Snapshot(), nil
}

// Viewers show the name of a system call, and the name comes back as it was. A method that
// only has such a name stays another one.
func TestPprofShowsSystemCalls(t *testing.T) {
	t.Parallel()
	methods := []ccmap.Method{
		{Name: "main"}, {Name: ccmap.KernelName}, {Name: ccmap.KernelName, Signature: "read"}, {Name: "[kernel] read"},
		{Name: "[kernel] ", Signature: "read"}, {Name: ccmap.KernelName, Signature: "[kernel] read"},
	}
	var lines []line
	for id := 1; id < len(methods); id++ {
		lines = append(lines, line{
			[]ccmap.Frame{{Offset: 3}, {Method: ccmap.MethodID(id), Offset: ccmap.NoOffset}}, ccmap.Counters{Samples: int64(id), Time: int64(id)},
		})
	}
	s := build(methods, lines).Snapshot()
	text := encode(t, Pprof, s)
	p, err := profile.ParseUncompressed([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, f := range p.Function {
		shown = append(shown, f.Name)
	}
	slices.Sort(shown)
	if want := []string{"[kernel]", "[kernel] ", "[kernel] [kernel] read", "[kernel] read", "[kernel] read", "main"}; !slices.Equal(shown, want) {
		t.Errorf("viewers show %q, want %q", shown, want)
	}
	if diff := cmp.Diff(contentOf(s).Methods, contentOf(decode(t, text)).Methods); diff != "" {
		t.Errorf("methods (-written +read):\n%s", diff)
	}
}
