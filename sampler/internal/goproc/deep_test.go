package goproc

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// TestTrim: a stack of any depth keeps its ends, however often it is trimmed while it grows.
func TestTrim(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{1, mostFrames, mostFrames + 1, 2 * mostFrames, 10*mostFrames + 7} {
		var s stack
		for pc := range depth {
			if s.PCs = append(s.PCs, uint64(pc+elidedPC+1)); len(s.PCs) >= 2*mostFrames {
				s.trim()
			}
		}
		s.trim()
		s.trim() // changes nothing
		if depth <= mostFrames {
			if s.Elided != (process.Elided{}) || len(s.PCs) != depth {
				t.Errorf("depth %d: %d addresses, %+v", depth, len(s.PCs), s.Elided)
			}
			continue
		}
		want := process.Elided{At: mostInner, Frames: uint64(depth - mostFrames)}
		if s.Elided != want || len(s.PCs) != mostFrames+1 || s.PCs[mostInner] != elidedPC ||
			s.PCs[mostInner-1] != mostInner+elidedPC || s.PCs[mostInner+1] != uint64(depth-mostOuter+elidedPC+1) || s.PCs[mostFrames] != uint64(depth+elidedPC) {
			t.Errorf("depth %d: %d addresses, %+v, want %+v", depth, len(s.PCs), s.Elided, want)
		}
	}
}

// TestSkip: what is skipped counts as far as it is known.
func TestSkip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		depth int
		want  process.Elided
	}{
		{3, process.Elided{At: 3, Least: true}},
		{mostInner + 5, process.Elided{At: mostInner, Frames: 5, Least: true}},
		{2*mostFrames + 1, process.Elided{At: mostInner, Frames: 2*mostFrames + 1 - mostInner, Least: true}},
	} {
		var s stack
		for range c.depth {
			if s.PCs = append(s.PCs, 100); len(s.PCs) >= 2*mostFrames {
				s.trim()
			}
		}
		s.skip()
		if s.Elided != c.want || len(s.PCs) != c.want.At+1 || s.PCs[c.want.At] != elidedPC {
			t.Errorf("depth %d: %d addresses, %+v, want %+v", c.depth, len(s.PCs), s.Elided, c.want)
		}
	}
}

// made is memory that a test has made: the uppermost bytes of a stack.
type made struct {
	hi    uint64
	bytes []byte
	reads int // bytes
}

func (m *made) Read(addr uint64, buf []byte) error {
	base := m.hi - uint64(len(m.bytes))
	if addr < base || addr+uint64(len(buf)) > m.hi {
		return unix.EFAULT
	}
	m.reads += copy(buf, m.bytes[addr-base:])
	return nil
}

func (m *made) put(addr, word uint64) {
	binary.NativeEndian.PutUint64(m.bytes[addr-(m.hi-uint64(len(m.bytes))):], word)
}

// deepStack is a made stack of calls of one function, and its registers.
type deepStack struct {
	*made
	u     *unwinder
	pc    uint64 // in a function that calls itself
	root  uint64 // in one that nothing calls
	delta uint64
	at    process.Registers
	depth int
}

// newDeepStack makes a stack out of this program's own functions.
func newDeepStack(t *testing.T, depth int) *deepStack {
	t.Helper()
	symbols, err := openCode(context.Background(), os.Getpid(), gosym.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(symbols.close)
	d := &deepStack{depth: depth}
	d.pc, d.delta = within(t, symbols, uint64(reflect.ValueOf(newDeepStack).Pointer()))
	d.root = rootOf(t, symbols)
	const hi, above = 0xc100000000, 64
	frame := d.delta + 8
	size := uint64(depth)*frame + above
	d.made = &made{hi: hi, bytes: make([]byte, size)}
	sp := hi - size
	d.at = process.Registers{IP: d.pc, SP: sp, BP: sp + d.delta - 8}
	for i := range uint64(depth) {
		slot := sp + i*frame + d.delta
		d.put(slot-8, slot-8+frame)
		d.put(slot, d.pc)
	}
	d.put(hi-above-8, d.root)
	d.u = &unwinder{code: symbols, memory: d.made}
	d.u.far.memory = d.made
	d.u.far.renew()
	return d
}

// rootOf returns an address in a function that nothing calls.
func rootOf(t testing.TB, c *code) uint64 {
	t.Helper()
	pcs := make([]uintptr, 100)
	for _, pc := range pcs[:runtime.Callers(0, pcs)] {
		if c.at(uint64(pc)).root {
			return uint64(pc)
		}
	}
	t.Fatal("no function that nothing calls")
	return 0
}

// within returns an address in a function, and how far its return address is above SP there.
func within(t testing.TB, c *code, entry uint64) (pc, delta uint64) {
	t.Helper()
	for pc = entry; pc < c.at(entry).end; pc++ {
		if p := c.at(pc); p.hasDelta && p.delta >= 16 && p.kind == gosym.KindGo {
			return pc, uint64(p.delta)
		}
	}
	t.Fatal("the function has no frame")
	return 0, 0
}

// moment returns the moment with a copy of so many bytes of the stack.
func (d *deepStack) moment(copied int) *process.Moment {
	copied = min(copied, len(d.bytes))
	return &process.Moment{HasRegs: true, Regs: d.at, Stack: slices.Clone(d.bytes[:copied]), Cut: copied < len(d.bytes)}
}

// end returns the outer end of the stack.
func (d *deepStack) end() process.Piece {
	return process.Piece{Addr: d.hi - outerBytes, Bytes: slices.Clone(d.bytes[len(d.bytes)-outerBytes:])}
}

// walk unwinds a moment as far as the copy goes, and beyond it.
func (d *deepStack) walk(m *process.Moment, hi uint64) *stack {
	copied := stackView{base: m.Regs.SP, bytes: m.Stack}
	out := new(stack)
	var end ending
	if out.PCs, end = d.u.unwindDump(m.Regs.IP, m.Regs.SP, copied, nil); end == endOfDump {
		d.u.beyond(m, d.u.front, copied, hi, out)
	}
	out.trim()
	return out
}

func (d *deepStack) check(t *testing.T, st *stack, least bool) {
	t.Helper()
	lacks := st.Elided.Frames
	if !d.u.rooted(st) || st.Elided.Least != least || len(st.PCs) > mostFrames+1 {
		t.Errorf("rooted %v, %d addresses, %+v", d.u.rooted(st), len(st.PCs), st.Elided)
	}
	if all := d.depth + 1; !least && lacks != uint64(max(all-mostFrames, 0)) || lacks > uint64(all) {
		t.Errorf("lacks %d of %d functions", lacks, all)
	}
}

// TestBeyond: the callers beyond a copy are read from memory, to the root.
func TestBeyond(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{100, 1000, 10_000, 100_000} {
		d := newDeepStack(t, depth)
		d.check(t, d.walk(d.moment(4<<10), d.hi), len(d.bytes) > deepBytes-deepReserve)
		if d.reads > deepBytes {
			t.Errorf("depth %d: read %d bytes", depth, d.reads)
		}
	}
}

// TestBudgetOfDeepStacks: where the budget does not last for a stack, its ends are found all the same.
func TestBudgetOfDeepStacks(t *testing.T) {
	t.Parallel()
	d := newDeepStack(t, 20_000)
	d.u.far.bytes = deepReserve + 1<<16
	d.check(t, d.walk(d.moment(64<<10), d.hi), true)
	d.u.far.renew()
	d.u.far.steps = 3000
	d.check(t, d.walk(d.moment(64<<10), d.hi), true)
	d.u.far.bytes = 0
	if st := d.walk(d.moment(64<<10), d.hi); d.u.rooted(st) {
		t.Error("a root was found without a budget")
	}
	m := d.moment(64 << 10)
	m.Outer = d.end() // of the instant: nothing needs to be read
	d.check(t, d.walk(m, d.hi), true)
}

// TestChangedStacks: memory that does not fit to the copy is not believed. The outer end of the instant is, and
// one that was the same before.
func TestChangedStacks(t *testing.T) {
	t.Parallel()
	d := newDeepStack(t, 20_000)
	m := d.moment(64 << 10)
	for _, changed := range []uint64{d.u.code.at(d.root).entry, 0} {
		for i := 60 << 10; i < 70<<10; i += 8 { // where the copy ends
			binary.NativeEndian.PutUint64(d.bytes[i:], changed)
		}
		if st := d.walk(m, d.hi); d.u.rooted(st) {
			t.Fatalf("a changed stack has a root, %+v", st.Elided)
		}
	}
	late := *m
	m.Outer = d.end()
	d.check(t, d.walk(m, d.hi), true)
	d.check(t, d.walk(&late, d.hi), true) // its outer end was seen before
	again := newDeepStack(t, 20_000)
	again.put(again.hi-1000, 0)
	for i := range 100 { // the outer end leads nowhere
		again.put(again.hi-2000+8*uint64(i), 1)
	}
	if st := again.walk(again.moment(64<<10), again.hi); again.u.rooted(st) {
		t.Errorf("a broken chain has a root, %+v", st.Elided)
	}
}

// TestRemains: what is left of returned calls in a frame is not part of the stack.
func TestRemains(t *testing.T) {
	t.Parallel()
	d := newDeepStack(t, 1000)
	v := stackView{d.hi - outerBytes, d.bytes[len(d.bytes)-outerBytes:]}
	want := slices.Clone(d.u.outerEnd(v, d.hi, true))
	fit := outerBytes / int(d.delta+8) // a chain begins in the inner quarter; frames are large under the race detector
	if len(want) < min(mostOuter, 3*fit/4) || want[len(want)-1] != d.root {
		t.Fatalf("%d functions of %d that fit", len(want), fit)
	}
	// A chain of its own, which begins in the inner quarter and goes over into the stack.
	other, delta := within(t, d.u.code, uint64(reflect.ValueOf(within).Pointer()))
	frame, slot := d.delta+8, d.hi-64-8
	for slot > v.base+outerBytes/8 {
		slot -= frame
	}
	remains := slot - 8 - delta
	binary.NativeEndian.PutUint64(v.bytes[remains-v.base:], other)
	binary.NativeEndian.PutUint64(v.bytes[remains-8-v.base:], slot-8)
	if got := d.u.outerEnd(v, d.hi, true); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestCyclicStack: return addresses and frame pointers that lead in a circle, or on and on, end with the budget.
func TestCyclicStack(t *testing.T) {
	t.Parallel()
	d := newDeepStack(t, 100)
	words := binary.NativeEndian.AppendUint64(nil, d.pc)
	d.u.far.memory, d.u.memory = noise(words), noise(words)
	m := d.moment(800)
	for range 100 {
		if st := d.walk(m, 1<<46); d.u.rooted(st) || len(st.PCs) > 2*mostFrames {
			t.Fatalf("%d addresses of a stack without an end", len(st.PCs))
		}
	}
	if d.u.far.bytes < 0 || d.u.far.steps < 0 {
		t.Errorf("the budget was exceeded: %d bytes, %d steps", d.u.far.bytes, d.u.far.steps)
	}
}
