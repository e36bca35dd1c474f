package perf

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/gosym"
)

// madeRuntime is memory with a g at 4096, its m at 8192 and the m's g0 at 12288.
type madeRuntime struct{ b [16384]byte }

func (r *madeRuntime) read(addr uint64, buf []byte) error {
	if addr > uint64(len(r.b)) || uint64(len(buf)) > uint64(len(r.b))-addr {
		return errors.New("not mapped")
	}
	copy(buf, r.b[addr:])
	return nil
}

func newMadeRuntime(l gosym.Layout) *madeRuntime {
	const g, m, g0 = 4096, 8192, 12288
	r := new(madeRuntime)
	put := func(at uint64, offset int, value uint64) {
		binary.NativeEndian.PutUint64(r.b[at+uint64(offset):], value)
	}
	put(g, l.GStackLo, 0xc000010000)
	put(g, l.GStackHi, 0xc000012000)
	put(g, l.GM, m)
	put(g, l.GID, 17)
	put(m, l.MG0, g0)
	put(m, l.MCurG, g)
	put(g0, l.GM, m)
	return r
}

// TestLayoutIsProved: samples prove the layout that the memory has, and refute the
// others.
func TestLayoutIsProved(t *testing.T) {
	t.Parallel()
	all, _ := new(gosym.Table).Layouts()
	if len(all) < 3 {
		t.Fatalf("%d layouts", len(all))
	}
	shifted := all[0]
	shifted.GStackLo, shifted.GStackHi, shifted.GM = shifted.GStackLo+16, shifted.GStackHi+16, shifted.GM+16
	s := &perfevent.Sample{Regs: perfevent.Registers{R14: 4096, SP: 0xc000011000}}
	look := func(memory, layout gosym.Layout) verdict {
		p := proof{who: newIdentifier(newMadeRuntime(memory), layout), patience: enoughMisses}
		for range 2 * enoughMisses {
			if v := p.look(s); v != open {
				return v
			}
		}
		return open
	}
	for i, l := range all {
		if v := look(l, l); v != proved {
			t.Errorf("layout %d of itself: verdict %d", i, v)
		}
		if v := look(shifted, l); v != refuted {
			t.Errorf("layout %d of a shifted one: verdict %d", i, v)
		}
		moved := l
		moved.MCurG += 16
		if v := look(moved, l); v != refuted {
			t.Errorf("layout %d with curg elsewhere: verdict %d", i, v)
		}
	}
}

// TestLayoutOutlastsSwitches: a goroutine that has left its m says nothing against the layout.
func TestLayoutOutlastsSwitches(t *testing.T) {
	t.Parallel()
	all, _ := new(gosym.Table).Layouts()
	r := newMadeRuntime(all[0])
	binary.NativeEndian.PutUint64(r.b[4096+all[0].GM:], 0)
	p := proof{who: newIdentifier(r, all[0]), patience: enoughMisses}
	for range 1000 {
		if v := p.look(&perfevent.Sample{Regs: perfevent.Registers{R14: 4096, SP: 0xc000011000}}); v != open {
			t.Fatalf("verdict %d", v)
		}
	}
}

// TestLayoutsAreTried: where all layouts are refuted, goroutines are not told apart.
func TestLayoutsAreTried(t *testing.T) {
	t.Parallel()
	all, _ := new(gosym.Table).Layouts()
	d := &drainer{taker: new(taker), layouts: all, log: slog.New(slog.DiscardHandler)}
	d.tryLayout(true)
	if d.taker.who == nil || !d.taker.knowsLayout {
		t.Error("the layout of the program's own version is not used")
	}
	for range all {
		d.tryLayout(false)
		if d.taker.who != nil || d.taker.knowsLayout {
			t.Error("a guess is used before it is proved")
		}
	}
	if d.proof.who != nil {
		t.Error("a layout is left")
	}
}

// TestAssemblySaysNothingOfLayouts: the race detector is called by assembly that has
// changed SP to the thread's stack, and R14 is what assembly makes it. The detector's C
// lies among the Go functions where Go's linker has linked it; it has no SP deltas.
func TestAssemblySaysNothingOfLayouts(t *testing.T) {
	t.Parallel()
	const leaf, root = 0x1000, 0x2000
	all, _ := new(gosym.Table).Layouts()
	for name, top := range map[string]struct {
		place
		kept bool
	}{
		"Go":       {place{kind: gosym.KindGo, hasDelta: true}, false},
		"assembly": {place{kind: gosym.KindGo, hasDelta: true, asm: true}, true},
		"C":        {place{kind: gosym.KindGo}, true},
	} {
		c := &code{table: new(gosym.Table), cache: map[uint64]*place{
			leaf: &top.place,
			root: {kind: gosym.KindGo, id: gosym.FuncGoexit, root: true},
		}}
		d := &drainer{code: c, layouts: all, log: slog.New(slog.DiscardHandler), taker: &taker{unwinder: unwinder{
			code: c, memory: newMadeRuntime(all[0])}}}
		d.taker.stack = stack{pcs: []uint64{leaf, root}, rooted: true}
		d.tryLayout(true)
		for range manyMisses {
			d.proveLayout(&perfevent.Sample{Regs: perfevent.Registers{IP: leaf, R14: 4096, SP: 0x7ffd00000000}})
		}
		if d.taker.knowsLayout != top.kept {
			t.Errorf("in %s: the layout is kept %t", name, d.taker.knowsLayout)
		}
	}
}

// TestWrongLayoutGivesWay samples a program with the layouts of other Go versions
// before its own, as if its version were not known.
func TestWrongLayoutGivesWay(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "calls", "20", "60")
	s, sink := attach(t, g.pid(), Options{Interval: time.Millisecond})
	own, _ := s.drainer.code.table.Layout()
	all, _ := new(gosym.Table).Layouts()
	s.drainer.layouts = append(slices.DeleteFunc(all, func(l gosym.Layout) bool { return l == own }), own)
	s.drainer.tryLayout(false)
	g.proceed(t)
	samples, _ := collect(t, s, sink)
	if d := s.drainer; d.taker.layout != own || !d.taker.knowsLayout || d.proof.who != nil {
		t.Fatalf("layout %+v, used %t, want %+v", d.taker.layout, d.taker.knowsLayout, own)
	}
	if !slices.ContainsFunc(samples, func(s stackSample) bool { return s.Goroutine != 0 && s.has("main.work") }) {
		t.Error("no goroutine is known in the end")
	}
}
