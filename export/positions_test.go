package export

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// wasm is the map of a golden file: of a WebAssembly program, two calls of which are on
// one line, and one on none that is known.
func wasm() *ccmap.Map {
	const main, fib, write, native = 0, 1, 2, 3
	methods := []ccmap.Method{
		{Name: "main", Signature: "(i32, i32) i32", File: "/src/fib.c", StartLine: 17, Module: "sha256:ab", Coordinate: ccmap.CoordinateBytecode},
		{Name: "fib", Signature: "(i32) i32", File: "/src/fib.c", StartLine: 10, Module: "sha256:ab", Coordinate: ccmap.CoordinateBytecode},
		{Name: "wasi_snapshot_preview1.fd_write", Signature: "(i32, i32, i32, i32) i32", Coordinate: ccmap.CoordinateBytecode},
		{Name: "native", File: "/src/native.s", StartLine: 1, Coordinate: ccmap.CoordinateMachine},
	}
	at := func(method ccmap.MethodID, offset uint32) ccmap.Frame {
		return ccmap.Frame{Method: method, Offset: offset}
	}
	m := ccmap.New(ccmap.Options{})
	for _, l := range []struct {
		ccmap.Frame
		line int32
	}{{at(main, 24), 18}, {at(fib, 14), 13}, {at(fib, 26), 13}, {at(native, 0), 1}, {at(fib, 999), 15}} {
		m.Names().SetLine(at(m.Names().Intern(methods[l.Method]), l.Offset), l.line)
	}
	for _, l := range []line{
		{[]ccmap.Frame{at(main, 24), at(fib, 14), at(fib, 26), at(fib, 1)}, ccmap.Counters{Samples: 3, Time: 30e6, Activations: 1}},
		{[]ccmap.Frame{at(main, 24), at(fib, 26), at(fib, 14)}, ccmap.Counters{Samples: 1, Time: 10e6}},
		{[]ccmap.Frame{at(main, 54), at(write, ccmap.NoOffset)}, ccmap.Counters{Samples: 1, Time: 5e6, Activations: 1}},
		{[]ccmap.Frame{at(main, ccmap.NoOffset), at(native, 0)}, ccmap.Counters{Samples: 1, Time: 5e6}},
	} {
		addStack(m, methods, l)
	}
	m.AddPoint(ccmap.Point{
		Origin: ccmap.OriginBurst, Method: ccmap.FirstID + main, Offset: 54, Nulls: ccmap.NullsUnknown,
		Values: []ccmap.PointValue{{Value: uint64(ccmap.FirstID + fib), Count: 7}},
	})
	*m.Meta() = ccmap.Meta{Engine: "wasm", Start: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Duration: time.Second}
	return m
}

// Lines of positions that stand nowhere are those of another map.
func TestLinesAreThoseOfTheMap(t *testing.T) {
	t.Parallel()
	s := wasm().Snapshot()
	for _, f := range []Format{XML, JSON} {
		got := decode(t, encode(t, f, s))
		fib, _ := got.Names().Lookup("fib", "(i32) i32")
		for offset, want := range map[uint32]int32{14: 13, 26: 13, 1: 0, 999: 0} {
			if line := got.Names().Line(ccmap.Frame{Method: fib, Offset: offset}); line != want {
				t.Errorf("%v: offset %d is on line %d, want %d", f, offset, line, want)
			}
		}
	}
}

// What pprof reads and writes again, and what merging adds up, keeps positions and lines.
func TestGoToolPprofKeepsPositions(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	t.Parallel()
	profile, out := writeTemp(t, "wasm.pb", wasm()), filepath.Join(t.TempDir(), "out.pb.gz")
	goTool(t, "tool", "pprof", "-proto", "-output="+out, profile)
	m, _, err := ReadFile(out, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want, got := encode(t, Folded, wasm().Snapshot()), encode(t, Folded, m.Snapshot()); want != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
	if diff := cmp.Diff(contentOf(wasm().Snapshot()).Lines, contentOf(m.Snapshot()).Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	for args, want := range map[string]string{
		"-lines":     `fib /src/fib\.c:13`,
		"-addresses": `000000010000000e fib /src/fib\.c:13`,
	} {
		if got := goTool(t, "tool", "pprof", "-top", args, profile); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: no %s in\n%s", args, want, got)
		}
	}
}

func addPart(t *testing.T, sum *ccmap.Map, data string) {
	t.Helper()
	p, err := ReadPart(strings.NewReader(data), ReadOptions{})
	if err == nil {
		err = NewSum(sum).Add(p, Weight{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Parts of a sum bring their lines with them.
func TestPartBringsLines(t *testing.T) {
	t.Parallel()
	want := contentOf(wasm().Snapshot())
	for _, f := range Formats() {
		if !strings.HasPrefix(f.Holds().Methods, holdsAll) {
			continue
		}
		sum := ccmap.New(ccmap.Options{})
		sum.Names().Intern(ccmap.Method{Name: "another"})
		addPart(t, sum, encode(t, f, wasm().Snapshot()))
		addPart(t, sum, encode(t, f, wasm().Snapshot()))
		got := contentOf(sum.Snapshot())
		if diff := cmp.Diff(want.Lines, got.Lines); diff != "" {
			t.Errorf("%v: lines (-want +got):\n%s", f, diff)
		}
		if diff := cmp.Diff(want.Methods, got.Methods); diff != "" {
			t.Errorf("%v: methods (-want +got):\n%s", f, diff)
		}
	}
}
