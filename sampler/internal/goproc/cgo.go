package goproc

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// A thread of a cgo program has two stacks, its own and the stack of the goroutine
// that it runs, and each call from one language to the other changes to the other
// stack (runtime/asm_*.s and runtime/cgo/asm_*.s, Go 1.18 to 1.27):
//
//	thread's stack                    goroutine's stack
//
//	C functions                       callers of Go functions
//	asmcgocall: g, depth ──────────▶  asmcgocall, cgocall, main._Cfunc_f, …
//	                                  …, main.callback, cgocallbackg
//	cgocallback, crosscall2 ◀───────  cgocallback
//	C functions
//	asmcgocall: g, depth ──────────▶  asmcgocall, cgocall, main._Cfunc_f, …
//
// C functions are unwound by the call frame information of their files, Go's by
// their SP deltas. A sample holds a piece of the stack that SP was on, as it was
// at the instant. The other stack has to be read when the ring is drained:
//
//   - Go that waits for C. The goroutine's stack does not change as long as the
//     call lasts. Often its frame pointers tell the same from the instant itself;
//     if not, the words that are read must show a call of the C function that the
//     sample was in, and every frame must link to the next one.
//   - C that waits for Go. Its frames are taken only if they lead to the very
//     word of the goroutine's stack where Go goes on. If not, the C functions
//     between are left out, as runtime/pprof leaves them out.
//
// A goroutine whose stack fails is one that has gone on since; see goCallers.
type crosser struct {
	taken uint64 // bytes of the thread's stack from frame to the one of a callback, at least
	frame ehframe.Frame
	inC   stackView       // the piece of the thread's stack
	inGo  stackView       // the piece of the goroutine's stack
	g     uint64          // the goroutine; 0 before it is known
	hi    uint64          // the end of its stack
	at    position        // in the goroutine's stack
	bytes []byte          // of inGo, reused
	other []byte          // of inC, reused
	stay  map[uint64]bool // C functions that Go calls, and that do not end in a jump
	past  pastCalls
	calls map[uint32]uint64 // by thread: SP of its last call of C
}

// position is a place in the walk through a goroutine's stack.
type position struct {
	pc, sp uint64
	bp     uint64 // address of the next word that holds a frame pointer
	linked bool   // bp is known
	late   bool   // the stack was read after the sample
}

// Bounds of a read of a stack, bytes, and of the C functions and threads that are
// remembered.
const (
	maxGoroutineStack = 1 << 18
	maxThreadStack    = 1 << 16
	maxStay           = 1 << 12
	maxThreads        = 1 << 14
)

// start sets the registers of a sample.
func (x *crosser) start(r *process.Registers, dump stackView) {
	x.frame, x.inC, x.g = r.Frame(), dump, 0
}

// callers appends the C functions from the frame on and their callers. first says
// that the frame's PC is no return address.
func (u *unwinder) callers(s *process.Moment, first bool, out *stack) bool {
	from := len(out.PCs)
	pcs, entry, end := u.climb(first, out.PCs)
	out.PCs = pcs
	switch {
	case end == endAtRoot:
		out.rootInC = true
		return true
	case end == endInGo && u.code.at(u.x.frame.PC()).id == gosym.FuncAsmcgocall:
		u.x.note(s.TID)
		return u.goCallers(s, calledFunc{entry: entry, stays: len(pcs)-from > 1}, out)
	case end == endInGo && u.code.at(u.x.frame.PC()).racecall:
		return u.raceCallers(s, out)
	case end == endOfDump && s.Cut:
		out.WantDump = true
	}
	if end == endInGo || !u.findAsmcgocall(s.TID) {
		return false
	}
	leaf := u.code.at(pcs[from]).entry
	out.PCs = append(out.PCs, lostC)
	return u.goCallers(s, calledFunc{leaf: leaf}, out)
}

// calledFunc is the C function that Go has called, as the thread's stack has it.
type calledFunc struct {
	entry uint64 // 0: not known
	stays bool   // it has called others; else it may be about to end in a jump
	leaf  uint64 // the innermost function's entry, if that is all that is known
}

// goCallers appends the Go functions that have called C, from asmcgocall on, which
// the frame is in: as the kernel's chain has them, as the goroutine's stack has
// them now or, if the goroutine has gone on since, as they were when it was last
// found in a call of the same C function at the same depth.
func (u *unwinder) goCallers(s *process.Moment, c calledFunc, out *stack) bool {
	x := &u.x
	from := len(out.PCs)
	asmcgocall := x.frame.PC()
	depth, g, ok := u.calledC(x.frame.SP())
	if !ok || !u.knowsLayout {
		return false
	}
	out.g, x.taken = g, u.cgoFrame()
	key := pastCall{g, depth, max(c.entry, c.leaf)}
	switch {
	case u.byChain(s, out):
	case u.openGoroutine(g, depth) && u.sameCall(c) && u.across(out):
	case x.past.recall(key, s.Time, from, out):
		return true
	default:
		out.PCs = append(out.PCs[:from], asmcgocall) // the rest is of another moment
		return false
	}
	if !out.rootInC {
		x.past.keep(key, s.Time, out.PCs[from:])
	}
	return true
}

// pastCalls are the calls of C in which goroutines were found, with their Go
// callers. A full table is emptied: hot calls come back at once.
type pastCalls map[pastCall]*pastCallers

type pastCall struct{ g, depth, function uint64 }

type pastCallers struct {
	pcs  []uint64
	time uint64 // of the sample, ns
}

// Bounds of what is kept of past calls: how many, and how long they stand for
// others, ns.
const (
	maxPastCalls = 1 << 12
	maxPastAge   = 1e9
)

func (p *pastCalls) keep(key pastCall, time uint64, pcs []uint64) {
	if *p == nil || len(*p) >= maxPastCalls {
		*p = make(pastCalls)
	}
	c := (*p)[key]
	if c == nil {
		c = new(pastCallers)
		(*p)[key] = c
	}
	c.pcs, c.time = append(c.pcs[:0], pcs...), time
}

// recall replaces the frames that were appended from an index on.
func (p pastCalls) recall(key pastCall, time uint64, from int, out *stack) bool {
	c := p[key]
	if c == nil || time > c.time+maxPastAge {
		return false
	}
	out.PCs, out.Recalled = append(out.PCs[:from], c.pcs...), true
	return true
}

// lostC stands for C functions that cannot be unwound, between others that can.
// It is no code of any file, and so it is shown as unknown.
const lostC = 0

// byChain takes the callers of asmcgocall from the kernel's chain, where the frame
// pointers lead from the innermost function to asmcgocall's frame. The kernel has
// found them at the instant of the sample.
func (u *unwinder) byChain(s *process.Moment, out *stack) bool {
	f := &u.x.frame
	if !u.code.at(f.PC()).links() { // before Go 1.21 asmcgocall had no frame pointer
		return false
	}
	callers, ok := u.chainBeyond(s)
	if ok {
		out.PCs = append(append(out.PCs, f.PC()), callers...)
	}
	return ok
}

// chainBeyond returns the part of the kernel's chain beyond the frame pointer that
// Go had when it called C, if the frame pointers of C lead there and all of it is
// Go, up to a root.
func (u *unwinder) chainBeyond(s *process.Moment) ([]uint64, bool) {
	want, known := u.x.frame.Get(ehframe.BP)
	if !known {
		return nil, false
	}
	callers := s.Callers()
	for bp := s.Regs.BP; bp != want; callers = callers[1:] {
		next, ok := u.x.inC.word(bp)
		if !ok || len(callers) < 2 {
			return nil, false
		}
		bp = next
	}
	for i, pc := range callers {
		switch p := u.code.at(pc); {
		case p.id == gosym.FuncCgocallback || p.kind != gosym.KindGo:
			return nil, false
		case p.root:
			return callers[:i+1], true
		}
	}
	return nil, false
}

// raceCallers appends the Go functions that have called the race detector.
// racecall, which the frame is in, calls C on the thread's stack. The function that has called racecall is
// known from the goroutine's stack only, where its frame must end at the frame
// pointer of the instant; the line is its last call's.
func (u *unwinder) raceCallers(s *process.Moment, out *stack) bool {
	x := &u.x
	sp, g, ok1 := racecalled(&x.frame)
	bp, ok2 := x.frame.Get(ehframe.BP)
	hi, ok3 := u.word(g, u.layout.GStackHi)
	if !u.knowsLayout || !ok1 || !ok2 || !ok3 {
		return false
	}
	out.g, x.taken = g, 0
	out.PCs = append(out.PCs, x.frame.PC())
	from := len(out.PCs)
	callers, inChain := u.chainBeyond(s)
	read := u.openStack(g, hi, hi-sp)
	x.passRacecall(sp)
	x.at.bp, x.at.linked = bp, true
	switch {
	case !inChain:
		return read && u.across(out)
	case !read || !u.upTo(bp, out):
		out.PCs = append(out.PCs[:from], lostC)
	}
	out.PCs = append(out.PCs, callers...)
	return true
}

// inRacecall unwinds a sample in racecall itself, on the goroutine's stack or on the thread's.
func (u *unwinder) inRacecall(s *process.Moment, top *place, dump stackView, out *stack) {
	u.x.start(&s.Regs, dump)
	lo, ok1 := u.word(s.Regs.G(), u.layout.GStackLo)
	hi, ok2 := u.word(s.Regs.G(), u.layout.GStackHi)
	onThread := ok1 && ok2 && (s.Regs.SP <= lo || hi <= s.Regs.SP)
	if onThread && u.raceCallers(s, out) {
		return
	}
	unswitched := *top
	unswitched.hasDelta = !onThread
	out.PCs = out.PCs[:0]
	u.repair(s, &unswitched, dump, out)
}

// upTo appends the functions up to the one that has saved its frame pointer at bp.
func (u *unwinder) upTo(bp uint64, out *stack) bool {
	const near = 4 // racefuncenter, racecall and a function; one to spare
	x := &u.x
	for range near {
		p := u.code.at(x.at.pc)
		if p.kind != gosym.KindGo || !p.hasDelta || !x.follow(p) {
			return false
		}
		out.PCs = append(out.PCs, x.at.pc)
		if p.links() && p.slot(x.at.sp)-8 == bp {
			return true
		}
		if !x.pass(p) {
			return false
		}
	}
	return false
}

// findAsmcgocall looks for asmcgocall on a thread's stack that cannot be unwound.
// An earlier call can have left one in words that C has not written since, but not
// at the place from where the thread calls C.
func (u *unwinder) findAsmcgocall(tid uint32) bool {
	view := u.x.inC
	for at := view.base; ; at += 8 {
		pc, ok := view.word(at)
		if !ok {
			return false
		}
		if sp := at + 8; u.inAsmcgocall(pc) && u.callsCAt(tid, sp) {
			u.x.frame = ehframe.Frame{}
			u.x.frame.Set(ehframe.PC, pc)
			u.x.frame.Set(ehframe.SP, sp)
			u.x.note(tid)
			return true
		}
	}
}

// callsCAt says whether a thread calls C with that SP: it did so before, or the
// runtime has noted that its stack goes on there.
func (u *unwinder) callsCAt(tid uint32, sp uint64) bool {
	if u.x.calls[tid] == sp {
		return true
	}
	_, g, ok := u.calledC(sp)
	thread, known := u.threadSP(g)
	return ok && known && (thread-u.cgoFrame())&^15 == sp
}

// note remembers from where on its stack a thread calls C: until it ends, unless
// C calls it back.
func (x *crosser) note(tid uint32) {
	if x.calls == nil || len(x.calls) >= maxThreads {
		x.calls = make(map[uint32]uint64)
	}
	x.calls[tid] = x.frame.SP()
}

// A span is a range of addresses, from lo up to and without hi.
type span struct{ lo, hi uint64 }

// inAsmcgocall says whether pc is in runtime.asmcgocall. It is asked of every
// word of a dump: most are no code, and must not fill the cache of places.
func (u *unwinder) inAsmcgocall(pc uint64) bool {
	if f := u.asmcgocall; f.hi != 0 {
		return f.lo <= pc && pc < f.hi
	}
	if !u.code.isGo(pc) {
		return false
	}
	p := u.code.at(pc)
	if p.id != gosym.FuncAsmcgocall {
		return false
	}
	u.asmcgocall = span{p.entry, p.end}
	return true
}

// openGoroutine reads the stack of the goroutine that has called C, from its
// frame of asmcgocall on. Where asmcgocall has left no goroutine, C was called on
// the thread's stack, and depth is SP there.
func (u *unwinder) openGoroutine(g, depth uint64) bool {
	x := &u.x
	if g == 0 {
		x.at = position{pc: x.frame.PC(), sp: depth}
		x.inGo = x.inC
		return true
	}
	hi, ok := u.word(g, u.layout.GStackHi)
	return ok && u.openStack(g, hi, depth)
}

// openStack reads the uppermost bytes of a goroutine's stack, which ends at hi.
func (u *unwinder) openStack(g, hi, depth uint64) bool {
	x := &u.x
	if depth < 8 || depth > maxGoroutineStack || !plausible(hi-depth) {
		return false
	}
	if cap(x.bytes) < int(depth) {
		x.bytes = make([]byte, depth)
	}
	x.g, x.hi = g, hi
	x.inGo = stackView{base: hi - depth, bytes: x.bytes[:depth]}
	x.at = position{pc: x.frame.PC(), sp: hi - depth, late: true}
	return u.read(x.inGo.base, x.inGo.bytes) == nil
}

// word reads a field of one of the runtime's structures.
func (u *unwinder) word(object uint64, offset int) (uint64, bool) {
	var buf [8]byte
	if !plausible(object) || offset < 0 || u.read(object+uint64(offset), buf[:]) != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint64(buf[:]), true
}

// threadSP returns where the stack of the thread that runs a goroutine goes on:
// the SP that is saved there while the goroutine, or C that it calls, runs.
func (u *unwinder) threadSP(g uint64) (uint64, bool) {
	m, ok1 := u.word(g, u.layout.GM)
	g0, ok2 := u.word(m, u.layout.MG0)
	if !ok1 || !ok2 {
		return 0, false
	}
	return u.word(g0, u.layout.GSchedSP)
}

// sameCall compares the C function that a sample is in with the one that the
// goroutine calls, asmcgocall's first argument. A C
// function may end in a jump to another one, so they differ in samples of one and
// the same call; but a function that was once found to stay stays always.
func (u *unwinder) sameCall(c calledFunc) bool {
	x := &u.x
	fn, ok := x.inGo.word(firstArgument(u.code.at(x.at.pc), x.at.sp))
	if c.entry != fn {
		return ok && (c.entry == 0 || !x.stay[c.entry] && !x.stay[fn])
	}
	if c.stays && len(x.stay) < maxStay {
		if x.stay == nil {
			x.stay = make(map[uint64]bool)
		}
		x.stay[fn] = true
	}
	return true
}
