package gosym

import (
	"encoding/binary"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// maxWalk bounds the frames of a stack in these tests.
const maxWalk = 1000

// TestWalkParkedGoroutines unwinds every parked goroutine of a process from
// outside, by the layout of g and the SP deltas alone: each walk must end at a
// root.
func TestWalkParkedGoroutines(t *testing.T) {
	t.Parallel()
	_, _, table := reported[goReport](t, plain)
	layout, ok := table.layout, table.hasLayout
	if !ok {
		t.Fatal("no layout")
	}
	walked := 0
	for _, g := range allgs(t, table) {
		if word(t, table, g+uint64(layout.GStatus))&0xffffffff != 4 { // runtime._Gwaiting
			continue
		}
		lo, hi := word(t, table, g+uint64(layout.GStackLo)), word(t, table, g+uint64(layout.GStackHi))
		pc, sp := word(t, table, g+uint64(layout.GSchedPC)), word(t, table, g+uint64(layout.GSchedSP))
		if sp < lo || sp >= hi {
			t.Fatalf("SP %#x outside of the stack [%#x, %#x)", sp, lo, hi)
		}
		walkToRoot(t, table, pc, sp, hi)
		walked++
	}
	if walked < 2 { // the runtime's own; main may be in a system call
		t.Errorf("%d goroutines walked, want at least 2", walked)
	}
}

// walkToRoot unwinds one stack by SP deltas.
func walkToRoot(t *testing.T, table *Table, pc, sp, hi uint64) {
	t.Helper()
	var pcs []uint64
	for range maxWalk {
		pcs = append(pcs, pc)
		f, ok := table.Func(pc)
		if !ok {
			break
		}
		if f.IsRoot() {
			return
		}
		delta, ok := table.SPDelta(pc)
		if !ok || sp+uint64(delta) >= hi {
			break
		}
		pc = word(t, table, sp+uint64(delta))
		sp += uint64(delta) + 8
	}
	names := ccmap.NewNames()
	for _, f := range table.Stack(pcs, names, nil) {
		t.Log(names.At(f.Method).Name)
	}
	t.Errorf("the walk ends at %#x, which is no root", pc)
}

func word(t *testing.T, table *Table, addr uint64) uint64 {
	t.Helper()
	var b [8]byte
	if err := table.mem.readAt(b[:], addr); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

// allgs reads runtime.allgs of an unstripped process.
func allgs(t *testing.T, table *Table) []uint64 {
	t.Helper()
	at, ok := findObject(testBudget(), table.images[0].file, "runtime.allgs")
	if !ok {
		t.Fatal("no symbol runtime.allgs")
	}
	first, n := word(t, table, at), word(t, table, at+8)
	b, err := (&load{budget: testBudget(), mem: table.mem}).bytes(first, 8*n)
	if err != nil {
		t.Fatal(err)
	}
	var gs []uint64
	for ; len(b) > 0; b = b[8:] {
		gs = append(gs, binary.LittleEndian.Uint64(b))
	}
	return gs
}
