package perf

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/sampler/gosym"
)

// foreign appends the kernel's chain for a sample whose innermost function is
// not Go. Code of the vDSO does not keep a frame, and the runtime calls it on
// the thread's stack with the goroutine's frame pointer left alone: the call is
// found by its return address, just above SP.
func (u *unwinder) foreign(s *sample, top *place, dump stackView, out *stack) {
	out.pcs = append(out.pcs, s.regs.ip)
	callers := s.chain[1:]
	if top.kind == gosym.KindVDSO {
		callers = u.repairVDSO(callers, dump, out)
	}
	out.pcs = append(out.pcs, callers...)
}

// skipForeign drops what the kernel took for callers until the first Go code:
// a vDSO function may hold anything in the frame pointer.
func (u *unwinder) skipForeign(callers []uint64) []uint64 {
	for i, pc := range callers {
		if u.code.at(pc).kind == gosym.KindGo {
			return callers[i:]
		}
	}
	return nil
}

// repairVDSO appends the runtime's function that called the vDSO, unless the
// kernel has found it, and returns the callers that are left to append. Only
// the runtime calls the vDSO in a Go program: its return address is the first
// of that sort above SP.
func (u *unwinder) repairVDSO(callers []uint64, dump stackView, out *stack) []uint64 {
	const near = 512 // bytes; a vDSO function has a small frame
	for at := dump.base; at < dump.base+near; at += 8 {
		pc, ok := dump.word(at)
		if !ok {
			break
		}
		if !u.code.isGo(pc) || !u.code.at(pc).callsVDSO {
			continue
		}
		out.saved = dump.bytes[:at-dump.base]
		if len(callers) > 0 && callers[0] == pc {
			break
		}
		out.pcs = append(out.pcs, pc)
		out.repaired = true
		return u.skipForeign(callers)
	}
	return callers
}

// resumeCgo finds the goroutine that called C. runtime.asmcgocall leaves its
// address, and how deep its stack was, on the thread's stack.
func (u *unwinder) resumeCgo(dump stackView, out *stack) {
	keep := u.foreignPrefix(out.pcs)
	for at := dump.base; ; at += 8 {
		pc, ok := dump.word(at)
		if !ok {
			return
		}
		if !u.inAsmcgocall(pc) {
			continue
		}
		depth, ok1 := dump.word(at + 8)
		g, ok2 := dump.word(at + 16)
		if ok1 && ok2 && u.goroutineStack(pc, g, depth) {
			out.pcs = append(out.pcs[:keep], u.walked...)
			out.g = g
			return
		}
	}
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

// foreignPrefix returns how many of the innermost pcs are no Go code.
func (u *unwinder) foreignPrefix(pcs []uint64) int {
	for i, pc := range pcs {
		if u.code.at(pc).kind == gosym.KindGo {
			return i
		}
	}
	return len(pcs)
}

// maxGoroutineStack bounds what is read of a goroutine's stack at once.
const maxGoroutineStack = 1 << 16

// goroutineStack walks the stack of a goroutine that waits for C, from
// runtime.asmcgocall on, depth bytes below the stack's end. It leaves the
// result in u.walked, and says whether the walk reached a root.
func (u *unwinder) goroutineStack(pc, g, depth uint64) bool {
	var word [8]byte
	if !u.knowsLayout || !plausible(g) || depth > maxGoroutineStack || u.memory.read(g+uint64(u.layout.GStackHi), word[:]) != nil {
		return false
	}
	end := binary.NativeEndian.Uint64(word[:])
	if !plausible(end - depth) {
		return false
	}
	if cap(u.buf) < int(depth) {
		u.buf = make([]byte, maxGoroutineStack)
	}
	view := stackView{base: end - depth, bytes: u.buf[:depth]}
	if depth < 8 || u.memory.read(view.base, view.bytes) != nil {
		return false
	}
	caller, _ := view.word(view.base)
	var stopped ending
	u.walked, stopped = u.unwindDump(caller, view.base+8, view, append(u.walked[:0], pc))
	return stopped == endAtRoot
}
