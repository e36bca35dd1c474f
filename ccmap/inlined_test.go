package ccmap_test

import (
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

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

// TestInlinedHammer sets and reads inlined calls in many goroutines while methods come.
func TestInlinedHammer(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range uint32(2000) {
				id := names.Intern(ccmap.Method{Name: string(rune('a' + i%20))})
				f := ccmap.Frame{Method: id, Offset: i}
				names.SetInlined(f, id)
				if !names.Inlined(f, id) {
					t.Errorf("the call at offset %d is not inlined", i)
				}
			}
		})
	}
	all.Wait()
}
