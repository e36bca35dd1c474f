package goproc

import (
	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// The way up a goroutine's stack, and across the C functions that have called back into
// Go: see crosser for the two stacks.

// across walks the goroutine's stack to its root, and over the C functions that
// have called back into Go on the way.
func (u *unwinder) across(out *stack) bool {
	x := &u.x
	for len(out.PCs) < maxFrames {
		pcs, end := u.goUp(out.PCs)
		out.PCs = pcs
		switch {
		case end == endAtRoot:
			return true
		case end != endInCallback:
			return false
		case u.callback(x.frame.SP()+x.taken, out), u.callback(x.frame.SP()+x.taken+8, out):
			if out.rootInC {
				return true
			}
		case !x.pass(u.code.at(x.at.pc)):
			return false
		}
	}
	return false
}

// goUp walks up the goroutine's stack by SP deltas, from x.at, to a root or to
// cgocallback, and appends the functions. A stack that was read after the sample
// must have its frame pointers in order: assembly need not have any.
func (u *unwinder) goUp(pcs []uint64) ([]uint64, ending) {
	at := &u.x.at
	for i := range maxFrames {
		p := u.code.at(at.pc)
		if p.kind != gosym.KindGo {
			return pcs, endLost
		}
		pcs = append(pcs, at.pc)
		switch {
		case p.root:
			return pcs, endAtRoot
		case p.id == gosym.FuncCgocallback && p.hasDelta:
			return pcs, endInCallback
		case !p.hasDelta, p.stackSwitch() && (i > 0 || p.id != gosym.FuncAsmcgocall):
			return pcs, endLost
		case at.late && !u.x.follow(p):
			return pcs, endLost
		case !u.x.pass(p):
			return pcs, endOfDump
		}
	}
	return pcs, endLost
}

// pass goes up by one frame.
func (x *crosser) pass(p *place) bool {
	pc, ok := x.inGo.word(p.slot(x.at.sp))
	if !ok {
		return false
	}
	x.at.pc, x.at.sp = pc, p.callerSP(x.at.sp)
	if p.id == gosym.FuncCgocallback { // its frame pointer leads to the thread's stack
		x.at.linked = false
	}
	return true
}

// follow follows the frame pointer that the function has saved below its return
// address, and says whether its caller's saved one is where it should be.
func (x *crosser) follow(p *place) bool {
	if !p.links() {
		return true
	}
	at := p.slot(x.at.sp) - 8
	if x.at.linked && x.at.bp != at {
		return p.asm
	}
	x.at.bp, x.at.linked = x.inGo.word(at)
	return true
}

// callback appends the C functions that have called back into Go. The goroutine's
// stack has led to cgocallback, whose frame on the thread's stack is at sp; from
// there the C functions lead up to the goroutine's call of C. They are taken only
// if that is the call where the goroutine's stack goes on.
func (u *unwinder) callback(sp uint64, out *stack) bool {
	x := &u.x
	p := u.code.at(x.at.pc)
	pc, ok := x.inC.word(p.slot(sp))
	if !ok || !u.code.at(pc).crosscall2 {
		return false
	}
	frame, from := x.frame, len(out.PCs)
	pcs := append(out.PCs, pc)
	if x.leave(u.code.at(pc), p.callerSP(sp)) && u.toGo(p, &pcs, out) {
		out.PCs = pcs
		return true
	}
	x.frame, out.PCs = frame, pcs[:from]
	return false
}

// toGo climbs from C to Go that has called it, and goes on where the goroutine's
// stack does, at the return address of cgocallback. A thread that C has
// started has none such: its goroutine begins there.
func (u *unwinder) toGo(cgocallback *place, pcs *[]uint64, out *stack) bool {
	x := &u.x
	all, _, end := u.climb(false, *pcs)
	*pcs = all
	if end == endAtRoot {
		pc, ok := x.inGo.word(cgocallback.slot(x.at.sp))
		out.rootInC = ok && u.code.at(pc).root
		return out.rootInC
	}
	if end != endInGo || u.code.at(x.frame.PC()).id != gosym.FuncAsmcgocall {
		return false
	}
	depth, g, ok := u.calledC(x.frame.SP())
	sp := cgocallback.callerSP(x.at.sp)
	if !ok || g != x.g || x.hi-depth != sp {
		return false
	}
	x.at = position{pc: x.frame.PC(), sp: sp, late: x.at.late}
	x.taken = u.cgoFrame()
	return true
}

// calledBack unwinds a stack whose innermost function is Go and that C has
// called.
func (u *unwinder) calledBack(s *process.Moment, dump stackView, out *stack) {
	if !u.knowsLayout {
		return
	}
	found := stack{Stack: process.Stack{PCs: u.walked[:0]}}
	rooted := u.onGoroutine(s, dump, &found)
	if !rooted { // C may have put anything into its register
		found.PCs = found.PCs[:0]
		rooted = u.onThread(s, dump, &found)
	}
	u.walked = found.PCs
	out.WantDump = out.WantDump || found.WantDump
	if rooted {
		out.PCs, out.rootInC, out.g = append(out.PCs[:0], found.PCs...), found.rootInC, found.g
	}
}

// onGoroutine unwinds from a goroutine's stack. The thread's stack is read later.
func (u *unwinder) onGoroutine(s *process.Moment, dump stackView, out *stack) bool {
	x := &u.x
	g := s.Regs.G()
	lo, ok1 := u.word(g, u.layout.GStackLo)
	hi, ok2 := u.word(g, u.layout.GStackHi)
	if !ok1 || !ok2 || s.Regs.SP <= lo || hi <= s.Regs.SP {
		return false
	}
	x.g, x.hi, x.inGo = g, hi, dump
	x.at = position{pc: s.Regs.IP, sp: s.Regs.SP}
	pcs, end := u.goUp(out.PCs)
	out.PCs, out.WantDump = pcs, end == endOfDump && s.Cut
	if end != endInCallback {
		return end == endAtRoot
	}
	out.PCs = pcs[:len(pcs)-1] // across begins with cgocallback
	if sp, ok := u.threadSP(x.g); ok && u.openThread(sp) {
		x.frame.Set(ehframe.SP, sp)
	}
	x.taken = 0
	return u.across(out)
}

// onThread unwinds from a thread's stack, where C has called Go that is not on a
// goroutine's stack: on the way there, or a function that needs none.
func (u *unwinder) onThread(s *process.Moment, dump stackView, out *stack) bool {
	x := &u.x
	x.inGo, x.g = dump, 0
	x.start(&s.Regs, dump)
	x.at = position{pc: s.Regs.IP, sp: s.Regs.SP}
	for i := range maxFrames {
		p := u.code.at(x.at.pc)
		switch {
		case i > 0 && p.kind == gosym.KindC:
			x.frame.Set(ehframe.PC, x.at.pc)
			x.frame.Set(ehframe.SP, x.at.sp)
			return u.callers(s, false, out)
		case p.kind != gosym.KindGo || !p.hasDelta:
			return false
		}
		out.PCs = append(out.PCs, x.at.pc)
		switch {
		case p.root: // it was a goroutine's stack all the same
			return true
		case p.crosscall2:
			return x.leave(p, x.at.sp) && u.callers(s, false, out)
		}
		if p.delta > 0 { // it has saved registers, and may use them
			x.frame = ehframe.Frame{}
		}
		if !x.pass(p) {
			return false
		}
	}
	return false
}

// openThread reads the thread's stack from sp on.
func (u *unwinder) openThread(sp uint64) bool {
	x := &u.x
	x.inC, x.frame = stackView{}, ehframe.Frame{}
	if !plausible(sp) {
		return false
	}
	if x.other == nil {
		x.other = make([]byte, maxThreadStack)
	}
	for n := len(x.other); n >= 1<<10; n /= 4 { // the stack may end sooner
		if u.read(sp, x.other[:n]) == nil {
			x.inC = stackView{base: sp, bytes: x.other[:n]}
			return true
		}
	}
	return false
}
