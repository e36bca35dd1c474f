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

// hammerFrames calls f with frames of methods, in many goroutines while methods come.
func hammerFrames(coordinate ccmap.Coordinate, f func(*ccmap.Names, ccmap.Frame)) {
	names := ccmap.NewNames()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range uint32(2000) {
				id := names.Intern(ccmap.Method{Name: string(rune('a' + i%20)), Coordinate: coordinate})
				f(names, ccmap.Frame{Method: id, Offset: i})
			}
		})
	}
	all.Wait()
}

func TestLinesHammer(t *testing.T) {
	t.Parallel()
	hammerFrames(ccmap.CoordinateBytecode, func(names *ccmap.Names, f ccmap.Frame) {
		names.SetLine(f, int32(f.Offset)+1)
		if got := names.Line(f); got != int32(f.Offset)+1 {
			t.Errorf("line %d of offset %d", got, f.Offset)
		}
	})
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

func TestSetInlined(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	outer, inner := names.Intern(ccmap.Method{Name: "outer"}), names.Intern(ccmap.Method{Name: "inner"})
	wasm := names.Intern(ccmap.Method{Name: "wasm", Coordinate: ccmap.CoordinateBytecode})
	at := ccmap.Frame{Method: outer, Offset: 4}
	if names.Inlined(at, inner) {
		t.Error("a call is inlined before anything has said so")
	}
	names.SetInlined(at, inner)
	names.SetInlined(at, inner)
	names.SetInlined(ccmap.Frame{Method: outer, Offset: ccmap.NoOffset}, inner)
	for _, dropped := range []struct {
		caller ccmap.Frame
		callee ccmap.MethodID
	}{{ccmap.Frame{Method: wasm}, inner}, {at, wasm}, {at, 99}, {at, ccmap.NoMethod}, {ccmap.Frame{Method: ccmap.NoMethod}, inner}} {
		names.SetInlined(dropped.caller, dropped.callee)
		if names.Inlined(dropped.caller, dropped.callee) {
			t.Errorf("%v to %d is inlined", dropped.caller, dropped.callee)
		}
	}
	for offset, want := range map[uint32]bool{4: true, ccmap.NoOffset: true, 5: false} {
		if got := names.Inlined(ccmap.Frame{Method: outer, Offset: offset}, inner); got != want {
			t.Errorf("offset %d: inlined %t, want %t", offset, got, want)
		}
	}
	if names.Inlined(ccmap.Frame{Method: inner, Offset: 4}, outer) {
		t.Error("the call is inlined in the other direction")
	}
}

// TestMergeKeepsInlined merges maps whose methods have other ids, and prunes the sum.
func TestMergeKeepsInlined(t *testing.T) {
	t.Parallel()
	sum := ccmap.New(ccmap.Options{})
	sum.Names().Intern(ccmap.Method{Name: "main"})
	for offset := range uint32(3) {
		m := ccmap.New(ccmap.Options{})
		callee, caller := m.Names().Intern(ccmap.Method{Name: "callee"}), m.Names().Intern(ccmap.Method{Name: "caller"})
		m.Names().SetInlined(ccmap.Frame{Method: caller, Offset: offset}, callee)
		m.Fold(&ccmap.Sample{Weight: 1, Frames: []ccmap.Frame{{Method: callee, Offset: 1}, {Method: caller, Offset: offset}}})
		if err := sum.Merge(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	if err := sum.Merge(sum.Snapshot()); err != nil {
		t.Fatal(err)
	}
	sum.Prune(0)
	callee, _ := sum.Names().Lookup("callee", "")
	caller, _ := sum.Names().Lookup("caller", "")
	for offset := range uint32(4) {
		if got, want := sum.Names().Inlined(ccmap.Frame{Method: caller, Offset: offset}, callee), offset < 3; got != want {
			t.Errorf("offset %d: inlined %t, want %t", offset, got, want)
		}
	}
}

func TestInlinedHammer(t *testing.T) {
	t.Parallel()
	hammerFrames(ccmap.CoordinateLine, func(names *ccmap.Names, f ccmap.Frame) {
		names.SetInlined(f, f.Method)
		if !names.Inlined(f, f.Method) {
			t.Errorf("the call at offset %d is not inlined", f.Offset)
		}
	})
}

func TestSetAddress(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	outer, inner := names.Intern(ccmap.Method{Name: "outer"}), names.Intern(ccmap.Method{Name: "inner"})
	alone := []ccmap.Frame{{Method: inner, Offset: 1}}
	within := []ccmap.Frame{{Method: inner, Offset: 1}, {Method: outer, Offset: 4}}
	unknown := []ccmap.Frame{{Method: inner, Offset: ccmap.NoOffset}}
	names.SetAddress(within, false, 0x30)
	names.SetAddress(within, false, 0x20)
	names.SetAddress(within, false, 0x40)
	names.SetAddress(alone, true, 0x50)
	names.SetAddress(unknown, false, 0x60)
	names.SetAddress(nil, false, 0x60)
	names.SetAddress(within[1:], false, 0)
	for _, test := range []struct {
		name   string
		frames []ccmap.Frame
		call   bool
		want   uint64
		met    bool
	}{
		{"the first of three", within, false, 0x20, true},
		{"no call", within, true, 0, false},
		{"a call", alone, true, 0x50, true},
		{"not sampled there", alone, false, 0, false},
		{"only what was inlined into it", within[1:], true, 0, true},
		{"unknown position", unknown, false, 0, false},
		{"no frames", nil, false, 0, false},
	} {
		if got, met := names.Address(test.frames, test.call); got != test.want || met != test.met {
			t.Errorf("%s: %#x, met %t, want %#x, %t", test.name, got, met, test.want, test.met)
		}
	}
}

func TestSetMapping(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	first := ccmap.Mapping{File: "/bin/x", Start: 0x400000, Limit: 0x500000}
	names.SetMapping("id", ccmap.Mapping{File: "/empty", Start: 2, Limit: 2})
	names.SetMapping("", first)
	for _, m := range []ccmap.Mapping{ // the order does not matter
		{File: "/bin/x", Start: 0x600000, Limit: 0x700000}, first, {File: "/bin/y", Start: 0x300000, Limit: 0x400000},
	} {
		names.SetMapping("id", m)
	}
	if got := names.Mapping("id"); got != first || names.Mapping("") != (ccmap.Mapping{}) {
		t.Errorf("mapping %+v, want the least, %+v", got, first)
	}
	if first.Contains(0x3fffff) || !first.Contains(0x400000) || first.Contains(0x500000) {
		t.Error("a mapping goes from its start up to and without its limit")
	}
}

// TestMergeKeepsAddresses merges maps whose methods have other ids.
func TestMergeKeepsAddresses(t *testing.T) {
	t.Parallel()
	sum := ccmap.New(ccmap.Options{})
	mapping := ccmap.Mapping{File: "/bin/x", Start: 0x1000, Limit: 0x9000}
	for offset := uint64(3); offset > 0; offset-- {
		m := ccmap.New(ccmap.Options{})
		m.Names().Intern(ccmap.Method{Name: string(rune('a' + offset))})
		inner, outer := m.Names().Intern(ccmap.Method{Name: "inner"}), m.Names().Intern(ccmap.Method{Name: "outer"})
		m.Names().SetAddress([]ccmap.Frame{{Method: inner, Offset: 7}, {Method: outer, Offset: 8}}, true, offset)
		m.Names().SetMapping("id", mapping)
		if err := sum.Merge(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	if err := sum.Merge(sum.Snapshot()); err != nil {
		t.Fatal(err)
	}
	inner, _ := sum.Names().Lookup("inner", "")
	outer, _ := sum.Names().Lookup("outer", "")
	got, _ := sum.Names().Address([]ccmap.Frame{{Method: inner, Offset: 7}, {Method: outer, Offset: 8}}, true)
	if got != 1 || sum.Names().Mapping("id") != mapping {
		t.Errorf("address %#x of %+v, want 0x1 of %+v", got, sum.Names().Mapping("id"), mapping)
	}
}

func TestAddressesHammer(t *testing.T) {
	t.Parallel()
	hammerFrames(ccmap.CoordinateLine, func(names *ccmap.Names, f ccmap.Frame) {
		frames, call := []ccmap.Frame{f, {Method: f.Method, Offset: f.Offset % 10}}, f.Offset%2 == 0
		names.SetAddress(frames, call, uint64(f.Offset)+1)
		if got, _ := names.Address(frames, call); got != uint64(f.Offset)+1 {
			t.Errorf("address %#x of offset %d", got, f.Offset)
		}
	})
}
