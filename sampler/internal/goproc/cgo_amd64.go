package goproc

import "github.com/ccmapd/ccmapd/internal/ehframe"

// What the runtime's assembly leaves on stacks and in registers where Go and C call each other
// (runtime/asm_amd64.s, runtime/cgo/asm_amd64.s and runtime/race_amd64.s, Go 1.18 to 1.27).

// calledC returns what asmcgocall has noted on the thread's stack, where C was called with SP sp: the goroutine,
// and how far its SP is from the end of its stack, in bytes.
func (u *unwinder) calledC(sp uint64) (depth, g uint64, ok bool) {
	sp += uint64(u.layout.CgoDepth)
	depth, ok1 := u.x.inC.word(sp)
	g, ok2 := u.x.inC.word(sp + 8)
	return depth, g, ok1 && ok2
}

// cgoFrame is how much of the thread's stack asmcgocall takes, bytes.
func (u *unwinder) cgoFrame() uint64 {
	if u.layout.CgoDepth > 0 {
		return 64
	}
	return 16
}

// firstArgument returns where an assembly function, which runs with SP sp, has its first argument: above its
// return address.
func firstArgument(p *place, sp uint64) uint64 { return p.callerSP(sp) }

// leave goes up from crosscall2, which runs with SP sp on the thread's stack, to
// the C function that has called it.
func (x *crosser) leave(crosscall2 *place, sp uint64) bool {
	slot := sp + uint64(crosscall2.delta)
	pc, ok1 := x.inC.word(slot)
	bp, ok2 := x.inC.word(slot - 8)
	x.frame = ehframe.Frame{}
	x.frame.Set(ehframe.PC, pc)
	x.frame.Set(ehframe.SP, slot+8)
	x.frame.Set(ehframe.BP, bp)
	return ok1 && ok2 && crosscall2.hasDelta
}

// racecalled returns SP of the goroutine, and the goroutine, while racecall calls C. C leaves these registers
// as they are.
func racecalled(f *ehframe.Frame) (sp, g uint64, ok bool) {
	sp, ok1 := f.Get(ehframe.R12)
	g, ok2 := f.Get(ehframe.R14)
	return sp, g, ok1 && ok2
}

// passRacecall goes up from racecall, which has no frame.
func (x *crosser) passRacecall(sp uint64) {
	x.at.pc, _ = x.inGo.word(sp)
	x.at.sp = sp + 8
}
