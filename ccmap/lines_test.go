package ccmap_test

import (
	"math"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestLineOfLineCoordinate(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	for _, c := range []struct {
		name      string
		file      string
		startLine int32
		offset    uint32
		want      int32
	}{
		{"declaration", "f.go", 10, 0, 10},
		{"behind it", "f.go", 10, 5, 15},
		{"before it, by a //line directive", "f.go", 10, 1<<32 - 3, 7},
		{"no line is under 1", "f.go", 2, 1<<32 - 2, 0},
		{"nor over 2³¹", "f.go", math.MaxInt32, 1, 0},
		{"unknown", "f.go", 10, ccmap.NoOffset, 0},
		{"unknown start", "f.py", 0, 11, 12},
		{"no file", "", 0, 3, 0},
	} {
		id := names.Intern(ccmap.Method{Name: c.name, File: c.file, StartLine: c.startLine})
		if got := names.Line(ccmap.Frame{Method: id, Offset: c.offset}); got != c.want {
			t.Errorf("%s: line %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSetLine(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	wasm := names.Intern(ccmap.Method{Name: "fib", File: "fib.c", StartLine: 3, Coordinate: ccmap.CoordinateBytecode})
	goFunc := names.Intern(ccmap.Method{Name: "main.f", File: "f.go", StartLine: 3})
	at := ccmap.Frame{Method: wasm, Offset: 60}
	if got := names.Line(at); got != 0 {
		t.Errorf("line %d before anybody has said one", got)
	}
	for _, f := range []ccmap.Frame{{Method: wasm, Offset: ccmap.NoOffset}, {Method: goFunc, Offset: 1}, {Method: 99, Offset: 1}} {
		names.SetLine(f, 12)
	}
	names.SetLine(at, 0)
	names.SetLine(at, -1)
	names.SetLine(at, 5)
	names.SetLine(at, 6)
	if got := names.Line(at); got != 5 {
		t.Errorf("line %d, want the first that was said, 5", got)
	}
	if got := names.Line(ccmap.Frame{Method: goFunc, Offset: 1}); got != 4 {
		t.Errorf("line %d of a method whose positions are lines, want 4", got)
	}
	if got := names.Line(ccmap.Frame{Method: wasm, Offset: ccmap.NoOffset}); got != 0 {
		t.Errorf("line %d of the unknown position", got)
	}
}

// TestLinesHammer sets and reads lines in many goroutines while methods come.
func TestLinesHammer(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range uint32(2000) {
				id := names.Intern(ccmap.Method{Name: string(rune('a' + i%20)), Coordinate: ccmap.CoordinateBytecode})
				f := ccmap.Frame{Method: id, Offset: i}
				names.SetLine(f, int32(i)+1)
				if got := names.Line(f); got != int32(i)+1 {
					t.Errorf("line %d of offset %d", got, i)
				}
			}
		})
	}
	all.Wait()
}

// TestMergeKeepsLines merges maps that name the same method, with other ids.
func TestMergeKeepsLines(t *testing.T) {
	t.Parallel()
	fib := ccmap.Method{Name: "fib", File: "fib.c", StartLine: 3, Coordinate: ccmap.CoordinateBytecode}
	sum := ccmap.New(ccmap.Options{})
	sum.Names().Intern(ccmap.Method{Name: "main"})
	for offset := range uint32(3) {
		m := ccmap.New(ccmap.Options{})
		id := m.Names().Intern(fib)
		m.Names().SetLine(ccmap.Frame{Method: id, Offset: offset}, int32(10+offset))
		if err := sum.Merge(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	if err := sum.Merge(sum.Snapshot()); err != nil {
		t.Fatal(err)
	}
	id, _ := sum.Names().Lookup("fib", "")
	for offset := range uint32(3) {
		if got := sum.Names().Line(ccmap.Frame{Method: id, Offset: offset}); got != int32(10+offset) {
			t.Errorf("line %d of offset %d", got, offset)
		}
	}
	if got := sum.Names().At(id).Coordinate; got != ccmap.CoordinateBytecode {
		t.Errorf("coordinate %v", got)
	}
}
