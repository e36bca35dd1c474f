package goproc

import (
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// The layout of the runtime's g and m is no more than a guess by the Go version
// until samples have proved it: in Go code of a goroutine, its register leads to a g whose
// stack holds SP, and its m leads back to it. A layout that samples refute gives way
// to another version's, the newest first. After the last one, goroutines are
// not told apart.

// proof is the evidence that samples give of a layout.
type proof struct {
	who    *identifier // nil: nothing to prove
	misses int         // samples whose g does not lead back to them
	links  int         // samples whose g does, and has an m that leads back to it

	patience int // misses without a link that refute the layout
}

type verdict uint8

const (
	open verdict = iota
	proved
	refuted
)

const (
	// enoughLinks prove a layout: words that lead in a circle do so by no accident.
	enoughLinks = 3
	// enoughMisses without a link refute a guessed layout, and more refute the one of the
	// program's own Go version: memory is read after the sample, and by then a stack may
	// have been moved or the goroutine have ended, on a busy machine time after time.
	enoughMisses, manyMisses = 16, 512
	// maxGoroutines bounds the number of a goroutine.
	maxGoroutines = 1 << 40
)

// look takes in a sample of Go code on a goroutine's stack or, for it, the thread's.
func (p *proof) look(s *process.Moment) verdict {
	g, ok := p.who.read(s.Regs.G())
	switch {
	case !ok || !g.holds(s.Regs.SP) || g.id >= maxGoroutines:
		p.misses++
	case g.m == 0: // it has left its m since
	case g.id != 0 && p.who.linked(g, s.Regs.G()):
		p.links++
	case g.id == 0 && p.who.ofThread(g, s.Regs.G()):
	default:
		p.misses++
	}
	switch {
	case p.links >= enoughLinks:
		return proved
	case p.links == 0 && p.misses >= p.patience:
		return refuted
	}
	return open
}

// linked says whether the m of a g leads back to it, and its g0 to the m.
func (i *identifier) linked(g goroutine, addr uint64) bool {
	g0, ok1 := i.word(g.m + uint64(i.layout.MG0))
	back, ok2 := i.word(g0 + uint64(i.layout.GM))
	current, ok3 := i.word(g.m + uint64(i.layout.MCurG))
	return ok1 && ok2 && ok3 && back == g.m && current == addr
}

// ofThread says whether a g is the g0 of its m.
func (i *identifier) ofThread(g goroutine, addr uint64) bool {
	g0, ok := i.word(g.m + uint64(i.layout.MG0))
	return ok && g0 == addr
}

// learnLayout takes over the layouts that the symbols suggest.
func (p *Process) learnLayout() {
	if p.code.table == nil {
		return
	}
	var known bool
	p.layouts, known = p.code.table.Layouts()
	p.tryLayout(known)
}

// tryLayout takes the next layout: to use it at once, or when it has been proved.
func (p *Process) tryLayout(use bool) {
	p.proof, p.who, p.knowsLayout = proof{}, nil, false
	if len(p.layouts) == 0 {
		p.log.Warn("goroutines are not told apart: the runtime's structures are none of Go 1.18 to 1.27")
		return
	}
	p.proof.who, p.layouts = newIdentifier(p.memory, p.layouts[0]), p.layouts[1:]
	p.proof.patience = enoughMisses
	if use {
		p.proof.patience = manyMisses
		p.useLayout()
	}
}

func (p *Process) useLayout() {
	p.who, p.layout, p.knowsLayout = p.proof.who, p.proof.who.layout, true
}

// proveLayout looks at one more moment, until the layout is proved. A moment in
// assembly says nothing: the register may hold anything there, and in racecall SP is on the
// thread's stack. So is SP in the race detector's C, which Go's linker puts among the Go
// functions: no SP deltas tell it apart.
func (p *Process) proveLayout(m *process.Moment) {
	if p.proof.who == nil || m.Kernel || !p.onGoroutine(&p.stack.Stack) {
		return
	}
	if top := p.code.at(m.Regs.IP); top.kind != gosym.KindGo || top.asm || !top.hasDelta {
		return
	}
	switch p.proof.look(m) {
	case proved:
		p.useLayout()
		p.proof.who = nil
	case refuted:
		p.tryLayout(false)
	}
}
