package perf

import (
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/gosym"
)

// stack is what could be found out about the calls of one sample.
type stack struct {
	pcs []uint64 // innermost first: pcs[0] is exact, the others are return addresses

	// slot is the address of the return address of the innermost physical
	// function, if that is Go code; 0 where unknown.
	slot uint64

	g        uint64 // descriptor of the goroutine, where the unwinding came across it
	saved    []byte // words of the stack among which a vDSO function has saved R14
	rooted   bool   // the outermost function is one that nothing calls; if not, callers are missing
	repaired bool   // the kernel's walk had lost the first caller
	foreign  bool   // frames outside Go
	rootInC  bool   // the outermost function is C's
	back     bool   // C has called Go
	recalled bool   // the Go callers of C come from an earlier sample
	wantDump bool   // a longer stack dump would have held more
}

// maxFrames bounds every walk. A goroutine's stack of 1 GB, the runtime's
// limit, has room for more, but a dump has not.
const maxFrames = 8192

// unwinder turns samples into stacks. It belongs to the drainer.
//
// Three sources of callers are tried in the order of what they cost:
//
//  1. the kernel's frame pointer walk, with its first caller repaired;
//  2. the SP deltas of the Go symbol table, through the stack dump, where the
//     walk was cut by kernel.perf_event_max_stack or a frame pointer is missing;
//  3. for C, and Go that C calls back: call frame information, and the other one
//     of the thread's two stacks; see crosser.
//
// A stack that none of them finishes is truncated.
type unwinder struct {
	code        *code
	memory      reader
	layout      gosym.Layout
	knowsLayout bool
	asmcgocall  span     // of runtime.asmcgocall, once it was met
	walked      []uint64 // reused
	x           crosser
}

// reader reads the target's memory.
type reader interface {
	read(addr uint64, buf []byte) error
}

// unwind finds the calls of a sample. out.pcs is reused.
func (u *unwinder) unwind(s *perfevent.Sample, out *stack) {
	*out = stack{pcs: out.pcs[:0]}
	if !s.HasRegs || len(s.Chain) == 0 {
		return // the thread is in the kernel and will not come back
	}
	dump := stackView{base: s.Regs.SP, bytes: s.Stack}
	top := u.code.at(s.Regs.IP)
	switch {
	case top.racecall:
		u.inRacecall(s, top, dump, out)
	case top.kind == gosym.KindGo:
		u.repair(s, top, dump, out)
	default:
		out.foreign = true
		u.foreign(s, top, dump, out)
	}
	if !u.rooted(out) || u.interrupted(out.pcs) {
		u.walk(s, top, dump, out)
	}
	u.cutAtRoot(out)
	if top.kind == gosym.KindGo && (out.back || out.foreign && !u.rooted(out)) {
		u.calledBack(s, dump, out)
	}
	u.finish(out)
}

// cutAtRoot drops the frames beyond the first root, as runtime/pprof does, and
// notes whether the rest has C in it, or callbacks. The frame pointers lead on from
// runtime.mcall to the goroutine that gave the thread up, and from a signal's
// handler to the one that it interrupted, but it is the scheduler or the handler
// that runs.
func (u *unwinder) cutAtRoot(out *stack) {
	for i, pc := range out.pcs {
		p := u.code.at(pc)
		out.foreign = out.foreign || p.kind == gosym.KindC
		out.back = out.back || p.id == gosym.FuncCgocallback || p.crosscall2
		if p.root {
			out.pcs = out.pcs[:i+1]
			return
		}
	}
}

// repair appends the kernel's chain for a sample whose innermost function is
// Go. The kernel follows frame pointers, so it loses the caller of a function
// that has not set up its own or has none. With delta the distance from SP to
// the return address, the frame pointer is this function's if and only if it
// points to the word below the return address. (Comparing return addresses
// instead is wrong under recursion.)
func (u *unwinder) repair(s *perfevent.Sample, top *place, dump stackView, out *stack) {
	out.pcs = append(out.pcs, s.Regs.IP)
	callers := s.Chain[1:]
	if !top.hasDelta || top.root {
		out.pcs = append(out.pcs, callers...)
		return
	}
	out.slot = s.Regs.SP + uint64(top.delta)
	if top.delta >= 8 && s.Regs.BP == out.slot-8 {
		out.pcs = append(out.pcs, callers...)
		return
	}
	caller, ok := dump.word(out.slot)
	if !ok { // a frame longer than the dump: the chain has a gap here
		out.slot, out.wantDump = 0, true
		return
	}
	if u.code.at(caller).kind != gosym.KindUnknown {
		out.pcs = append(out.pcs, caller)
		out.repaired = true
	} else {
		out.slot = 0
	}
	out.pcs = append(out.pcs, callers...)
}

// walk goes through the dump by SP deltas, and takes the result if it got
// further than the chain did.
func (u *unwinder) walk(s *perfevent.Sample, top *place, dump stackView, out *stack) {
	if top.kind != gosym.KindGo {
		return
	}
	pcs, end := u.unwindDump(s.Regs.IP, s.Regs.SP, dump, u.walked[:0])
	u.walked = pcs
	out.wantDump = out.wantDump || end == endOfDump && s.Cut
	if end == endAtRoot || len(pcs) > len(out.pcs) {
		out.pcs = append(out.pcs[:0], pcs...)
	}
}

// interrupted says whether a call was injected into the stack. The frame
// pointer of the function below such a call may not have been set up yet, as
// that of the innermost, so its caller may be lost.
func (u *unwinder) interrupted(pcs []uint64) bool {
	const near = 16 // frames; what an injected call does is not deep
	for _, pc := range pcs[:min(near, len(pcs))] {
		if u.code.at(pc).injected() {
			return true
		}
	}
	return false
}

// An ending says why a walk by SP deltas stopped.
type ending uint8

const (
	endAtRoot     ending = iota
	endOfDump            // the next return address lies beyond the piece of stack
	endLost              // code that is not known, or that moves SP in unknown ways
	endInGo              // C was called by Go
	endInCallback        // Go was called back by C
)

// unwindDump appends pc and the return addresses found above sp.
func (u *unwinder) unwindDump(pc, sp uint64, view stackView, pcs []uint64) ([]uint64, ending) {
	for range maxFrames {
		p := u.code.at(pc)
		if p.kind != gosym.KindGo {
			return pcs, endLost
		}
		pcs = append(pcs, pc)
		if p.root {
			return pcs, endAtRoot
		}
		if !p.hasDelta || p.stackSwitch() {
			return pcs, endLost
		}
		slot := sp + uint64(p.delta)
		caller, ok := view.word(slot)
		if !ok {
			return pcs, endOfDump
		}
		pc, sp = caller, slot+8
	}
	return pcs, endLost
}

// rooted says whether the outermost function is one that nothing calls. So is
// runtime.morestack where the goroutine has given the thread up: as behind
// runtime.mcall, it is the scheduler that runs.
func (u *unwinder) rooted(st *stack) bool {
	n := len(st.pcs)
	if n == 0 {
		return false
	}
	last := u.code.at(st.pcs[n-1])
	return st.rootInC || last.root || n > 2 && last.id == gosym.FuncMorestack && u.code.at(st.pcs[n-3]).preempts
}

// finish notes how complete the stack is, and what it consists of.
func (u *unwinder) finish(st *stack) {
	st.rooted = u.rooted(st)
	for _, pc := range st.pcs {
		if u.code.at(pc).kind != gosym.KindGo {
			st.foreign = true
			break
		}
	}
}
