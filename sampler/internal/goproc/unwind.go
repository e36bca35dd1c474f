package goproc

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// stack is a stack, and the facts about it that only the unwinder needs.
type stack struct {
	process.Stack

	g       uint64 // descriptor of the goroutine, where the unwinding came across it
	saved   []byte // words of the stack among which a vDSO function has saved the goroutine
	rootInC bool   // the outermost function is C's
	back    bool   // C has called Go
}

// maxFrames bounds every walk. A goroutine's stack of 1 GB, the runtime's
// limit, has room for more, but a dump has not.
const maxFrames = 8192

// unwinder turns samples into stacks. It belongs to the
// engine's goroutine.
//
// Three sources of callers are tried, the cheapest first:
//
//  1. the kernel's frame pointer walk, with its first caller repaired, or the same walk
//     through the copied pieces of the stacks;
//  2. the SP deltas of the Go symbol table, through the stack dump, where the
//     walk was cut by kernel.perf_event_max_stack or a frame pointer is missing;
//  3. for C, and Go that C calls back: call frame information, and the other one
//     of the thread's two stacks; see crosser.
//
// A stack that none of them finishes is truncated.
type unwinder struct {
	code        *code
	memory      process.Memory
	layout      gosym.Layout
	knowsLayout bool
	asmcgocall  span      // of runtime.asmcgocall, once it was met
	walked      []uint64  // reused
	chained     []uint64  // reused
	other       stackView // the piece of the thread's other stack that came with the moment
	x           crosser
	front       frontier // where unwindDump has ended
	longer      []uint64 // reused
	far         far
}

// unwind finds the calls of a moment. out.PCs is reused.
func (u *unwinder) unwind(s *process.Moment, out *stack) {
	*out = stack{Stack: process.Stack{PCs: out.PCs[:0]}}
	if !s.HasRegs {
		out.Rooted = s.Kernel // the thread will not come back, so it has no callers any more
		return
	}
	dump := stackView{base: s.Regs.SP, bytes: s.Stack}
	u.other = stackView{base: s.OtherBase, bytes: s.Other}
	if s.Chain == nil {
		s.Chain = u.chain(s, dump)
		defer func() { s.Chain = nil }() // the chain is the unwinder's
	}
	top := u.code.at(s.Regs.IP)
	switch {
	case top.racecall:
		u.inRacecall(s, top, dump, out)
	case top.kind == gosym.KindGo:
		u.repair(s, top, dump, out)
	default:
		out.Foreign = true
		u.foreign(s, top, dump, out)
	}
	if !u.rooted(out) || u.interrupted(out.PCs) {
		u.walk(s, top, dump, out)
	}
	u.cutAtRoot(out)
	u.growing(s, out)
	if top.kind == gosym.KindGo && (out.back || out.Foreign && !u.rooted(out)) {
		u.calledBack(s, dump, out)
	}
	u.finish(out)
}

// chain follows the frame pointers as the kernel does, through the copied pieces of the
// stacks. It begins with the innermost function.
func (u *unwinder) chain(s *process.Moment, dump stackView) []uint64 {
	pcs := append(u.chained[:0], s.Regs.IP)
	for bp := s.Regs.BP; len(pcs) < maxFrames; {
		view := dump
		if _, ok := view.word(bp); !ok {
			view = u.other
		}
		next, ok1 := view.word(bp)
		pc, ok2 := view.word(bp + 8)
		if !ok1 || !ok2 {
			break
		}
		pcs, bp = append(pcs, pc), next
	}
	u.chained = pcs
	return pcs
}

// instant is the target's memory, where the objects that came with a moment are as they
// were at its instant.
type instant struct {
	process.Memory
	objects []process.Piece
}

// Read is part of [process.Memory].
func (i *instant) Read(addr uint64, buf []byte) error {
	for _, o := range i.objects {
		if (stackView{o.Addr, o.Bytes}).copy(addr, buf) {
			return nil
		}
	}
	return i.Memory.Read(addr, buf)
}

// read reads the target's memory, from the moment where it was copied.
func (u *unwinder) read(addr uint64, buf []byte) error {
	if u.other.copy(addr, buf) {
		return nil
	}
	return u.memory.Read(addr, buf)
}

// cutAtRoot drops the frames beyond the first root, as runtime/pprof does, and
// notes whether the rest has C in it, or callbacks. The frame pointers lead on from
// runtime.mcall to the goroutine that gave the thread up, and from a signal's
// handler to the one that it interrupted, but it is the scheduler or the handler
// that runs.
func (u *unwinder) cutAtRoot(out *stack) {
	for i, pc := range out.PCs {
		p := u.code.at(pc)
		out.Foreign = out.Foreign || p.kind == gosym.KindC
		out.back = out.back || p.id == gosym.FuncCgocallback || p.crosscall2
		if p.root {
			out.PCs = out.PCs[:i+1]
			return
		}
	}
}

// repair appends the kernel's chain for a sample whose innermost function is
// Go. The kernel follows frame pointers, so it loses the caller of a function
// that has not set up its own or has none. The frame pointer is this function's
// if and only if it points to the word below the return address. (Comparing return addresses
// instead is wrong under recursion.)
func (u *unwinder) repair(s *process.Moment, top *place, dump stackView, out *stack) {
	out.PCs = append(out.PCs, s.Regs.IP)
	callers := s.Callers()
	if !top.hasDelta || top.root {
		out.PCs = append(out.PCs, callers...)
		return
	}
	out.Slot = top.slot(s.Regs.SP)
	if top.links() && s.Regs.BP == out.Slot-8 {
		out.PCs = append(out.PCs, callers...)
		return
	}
	caller, ok := dump.word(out.Slot)
	if !ok { // a frame longer than the dump: the chain has a gap here
		out.Slot, out.WantDump = 0, true
		return
	}
	if u.code.at(caller).kind != gosym.KindUnknown {
		out.PCs = append(out.PCs, caller)
		out.Repaired = true
	} else {
		out.Slot = 0
	}
	out.PCs = append(out.PCs, callers...)
}

// walk goes through the dump by SP deltas, and takes the result if it got
// further than the chain did.
func (u *unwinder) walk(s *process.Moment, top *place, dump stackView, out *stack) {
	if top.kind != gosym.KindGo {
		return
	}
	pcs, end := u.unwindDump(s.Regs.IP, s.Regs.SP, dump, u.walked[:0])
	u.walked = pcs
	if end == endAtRoot || len(pcs) > len(out.PCs) {
		out.PCs = append(out.PCs[:0], pcs...)
	}
	if end != endOfDump || !s.Cut {
		return
	}
	out.WantDump = true
	whole := stack{Stack: process.Stack{PCs: append(u.longer[:0], pcs...)}}
	u.beyond(s, u.front, dump, u.stackEnd(s.Regs.G(), s.Regs.SP), &whole)
	u.longer = whole.PCs
	if u.rooted(&whole) || len(whole.PCs) > len(out.PCs) {
		out.PCs, out.Elided = append(out.PCs[:0], whole.PCs...), whole.Elided
	}
}

// stackEnd returns where the stack of a goroutine ends, if that stack holds sp; else 0. The descriptor begins
// with g.stack (runtime/runtime2.go, Go 1.18 to 1.27).
func (u *unwinder) stackEnd(g, sp uint64) uint64 {
	lo, ok1 := u.word(g, 0)
	hi, ok2 := u.word(g, 8)
	if !ok1 || !ok2 || sp <= lo || hi < sp || hi&7 != 0 || hi >= process.OSThread {
		return 0
	}
	return hi
}

// growing appends the function whose stack the runtime is about to move, and its callers,
// where the moment has that stack. runtime.morestack clears the frame pointer, and has
// noted in the goroutine's descriptor where the function has called it
// (runtime/asm_*.s, Go 1.18 to 1.27).
func (u *unwinder) growing(s *process.Moment, out *stack) {
	n := len(out.PCs)
	if n == 0 || len(u.other.bytes) == 0 || !u.knowsLayout || u.code.at(out.PCs[n-1]).id != gosym.FuncMorestack || u.rooted(out) {
		return
	}
	m, ok1 := u.word(s.Regs.G(), u.layout.GM)
	g, ok2 := u.word(m, u.layout.MCurG)
	pc, ok3 := u.word(g, u.layout.GSchedPC)
	sp, ok4 := u.word(g, u.layout.GSchedSP)
	if !ok1 || !ok2 || !ok3 || !ok4 || sp != u.other.base {
		return
	}
	out.g = g
	var end ending
	out.PCs, end = u.unwindDump(pc, sp, u.other, out.PCs)
	if end == endOfDump {
		u.beyond(s, u.front, u.other, u.stackEnd(g, sp), out)
	}
}

// interrupted says whether a call was injected into the stack. The function
// below such a call may not have set up its frame pointer yet, like the innermost
// function, so its caller may be lost.
func (u *unwinder) interrupted(pcs []uint64) bool {
	const near = 16 // frames; injected calls do not go deep
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

// unwindDump appends pc and the return addresses found above sp. Where the piece ends, the frontier is
// there.
func (u *unwinder) unwindDump(pc, sp uint64, view stackView, pcs []uint64) ([]uint64, ending) {
	f := &u.front
	*f = frontier{position: position{pc: pc, sp: sp}}
	for range maxFrames {
		p := u.code.at(f.pc)
		if p.kind != gosym.KindGo {
			return pcs, endLost
		}
		pcs = append(pcs, f.pc)
		if p.root {
			return pcs, endAtRoot
		}
		if !p.hasDelta || p.stackSwitch() {
			return pcs, endLost
		}
		slot := p.slot(f.sp)
		caller, ok := view.word(slot)
		if !ok {
			return pcs, endOfDump
		}
		f.pass(p, slot, view)
		f.pc, f.sp = caller, p.callerSP(f.sp)
	}
	return pcs, endLost
}

// rooted says whether the outermost function is one that nothing calls. So is
// runtime.morestack where the goroutine has given the thread up: as behind
// runtime.mcall, it is the scheduler that runs.
func (u *unwinder) rooted(st *stack) bool {
	n := len(st.PCs)
	if n == 0 {
		return false
	}
	last := u.code.at(st.PCs[n-1])
	return st.rootInC || last.root || n > 2 && last.id == gosym.FuncMorestack && u.code.at(st.PCs[n-3]).preempts
}

// finish notes whether the stack reaches its root, and whether it has foreign code.
func (u *unwinder) finish(st *stack) {
	st.trim()
	st.Rooted = u.rooted(st)
	for _, pc := range st.PCs {
		if pc != elidedPC && u.code.at(pc).kind != gosym.KindGo {
			st.Foreign = true
			break
		}
	}
}

// stackView is a piece of a stack: the bytes from base upwards.
type stackView struct {
	base  uint64
	bytes []byte
}

// copy fills buf from addr, if the piece has all of it.
func (v stackView) copy(addr uint64, buf []byte) bool {
	at, n := addr-v.base, uint64(len(v.bytes))
	if addr < v.base || at > n || uint64(len(buf)) > n-at {
		return false
	}
	copy(buf, v.bytes[at:])
	return true
}

// word returns the word at addr, and whether it is in the piece.
func (v stackView) word(addr uint64) (uint64, bool) {
	at := addr - v.base
	if addr < v.base || uint64(len(v.bytes)) < 8 || at > uint64(len(v.bytes))-8 {
		return 0, false
	}
	return binary.NativeEndian.Uint64(v.bytes[at:]), true
}
