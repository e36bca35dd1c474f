package goproc

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// madeRuntime is memory with a g at 4096, its m at 8192 and the m's g0 at 12288.
type madeRuntime struct{ b [16384]byte }

func (r *madeRuntime) Read(addr uint64, buf []byte) error {
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
	s := &process.Moment{Regs: process.Registers{R14: 4096, SP: 0xc000011000}}
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
		if v := p.look(&process.Moment{Regs: process.Registers{R14: 4096, SP: 0xc000011000}}); v != open {
			t.Fatalf("verdict %d", v)
		}
	}
}

// TestLayoutsAreTried: where all layouts are refuted, goroutines are not told apart.
func TestLayoutsAreTried(t *testing.T) {
	t.Parallel()
	all, _ := new(gosym.Table).Layouts()
	p := &Process{layouts: all, log: slog.New(slog.DiscardHandler)}
	p.tryLayout(true)
	if p.who == nil || !p.knowsLayout {
		t.Error("the layout of the program's own version is not used")
	}
	for range all {
		p.tryLayout(false)
		if p.who != nil || p.knowsLayout {
			t.Error("a guess is used before it is proved")
		}
	}
	if p.proof.who != nil {
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
		p := &Process{layouts: all, log: slog.New(slog.DiscardHandler), unwinder: unwinder{code: c, memory: newMadeRuntime(all[0])}}
		p.stack = stack{Stack: process.Stack{PCs: []uint64{leaf, root}, Rooted: true}}
		p.tryLayout(true)
		for range manyMisses {
			p.proveLayout(&process.Moment{Regs: process.Registers{IP: leaf, R14: 4096, SP: 0x7ffd00000000}})
		}
		if p.knowsLayout != top.kept {
			t.Errorf("in %s: the layout is kept %t", name, p.knowsLayout)
		}
	}
}

// TestWrongLayoutGivesWay samples this program with the layouts of other Go versions
// before its own, as if its version were not known.
func TestWrongLayoutGivesWay(t *testing.T) {
	t.Parallel()
	p := openSelf(t)
	known, _ := p.code.table.Layouts()
	own := known[0]
	own.GLabels, own.LabelsAreMap = gosym.NoField, false // as in every guess
	all, _ := new(gosym.Table).Layouts()
	p.layouts = append(slices.DeleteFunc(all, func(l gosym.Layout) bool { return l == own }), own)
	p.tryLayout(false)
	var st process.Stack
	sampleSelf(t, func(m *process.Moment) bool {
		p.Unwind(m, &st)
		return p.knowsLayout && st.Goroutine != 0
	})
	if p.layout != own || p.proof.who != nil {
		t.Errorf("layout %+v, want %+v", p.layout, own)
	}
}

// Descriptors that engines have no room for are not told: a target's debugging information may say
// anything. The first moments seem to have callbacks, and later ones if there was one.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	p := &Process{}
	p.layout, p.knowsLayout = gosym.Layout{GStackHi: 8, GM: 48, GLabels: process.MostDescriptor - 8, MCurG: 184}, true
	d, known := p.Descriptors()
	if !known || d.GoroutineBytes != process.MostDescriptor || d.ThreadBytes != 192 || !d.Callbacks {
		t.Errorf("%+v, known: %v", d, known)
	}
	p.moments = unknownCallbacks
	if d, _ := p.Descriptors(); d.Callbacks {
		t.Error("callbacks that none of many moments had")
	}
	p.callbacks = true
	if d, _ := p.Descriptors(); !d.Callbacks {
		t.Error("callbacks are forgotten")
	}
	for _, far := range []int{process.MostDescriptor, 65528, 1 << 20} {
		p.layout.GLabels = far
		if d, known := p.Descriptors(); known {
			t.Errorf("a field at %d: %+v", far, d)
		}
	}
}
