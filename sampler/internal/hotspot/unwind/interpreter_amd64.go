package unwind

import "github.com/ccmapd/ccmapd/internal/process"

// Distances of the interpreter's frame below its frame pointer, bytes (frame_x86.hpp). The method's and the
// bytecode pointer's are those to begin with: see interpreter.
const (
	senderSPAt    = 8
	lastSPAt      = 16
	firstMethodAt = 24
	firstBCPAt    = 64
	localsAt      = 56 // in words from the frame pointer, JDK 21 and later
)

// firstWrapperAt is the distance of the wrapper below the call stub's frame pointer to begin with, bytes
// (frame_amd64: six words).
const firstWrapperAt = 48

// bytecodePointer returns the bytecode pointer of the innermost frame of the interpreter.
func bytecodePointer(r *process.Registers) uint64 { return r.R13 }

// between appends the frames where the interpreter has no frame, not yet or no more: its
// caller is compiled code. While a frame is left, R13 has the return address, and BX the
// caller's stack pointer. Before one is set up, BX has the method, and the return address
// is in a register that moments lack; where it was on the stack, it often still is.
func (u *Unwinder) between(r *process.Registers, st *Stack) {
	st.Repaired = true
	callers := append([]frame{{r.R13, r.BX, r.BP}, u.senderAt(r.R13-8, r.BP, false)}, u.near(r)...)
	if i := &u.interpreter; i.isMethod(r.BX) && i.size > 0 {
		st.Frames = append(st.Frames, Frame{Method: r.BX, PC: r.IP, Kind: Interpreted})
	}
	if !u.leading(callers, st) {
		u.lastResort(callers, r, st)
	}
}

// entering appends the frames where the interpreter sets up a frame: BX has the method,
// R13 the caller's stack pointer.
func (u *Unwinder) entering(m *process.Moment, st *Stack) bool {
	r, i := &m.Regs, &u.interpreter
	if !i.isMethod(r.BX) || i.size == 0 { // a call's abstract method is there, too, before the receiver's is found
		return false
	}
	callee := Frame{Method: r.BX, PC: r.IP, Kind: Interpreted, BCI: 0}
	const small = 128 // bytes of a frame that is being set up
	var next frame
	pc, _ := u.stack.word(r.SP)
	set, _ := u.stack.word(r.BP + 8)
	own, _ := u.stack.word(r.BP - i.methodAt) // once it is there: before, and in the caller's frame, it is another one
	switch _, returns := u.cache.returns(pc); {
	case returns:
		next, st.Slot = frame{pc, max(r.R13, r.SP+8), r.BP}, r.SP
	case r.BP > r.SP && r.BP > r.R13 && i.calls(u.stack, r.BP, r.R13): // the return address is in a register that moments lack
		st.Repaired = true
		st.Frames = append(st.Frames, callee)
		u.interpretedAt(r.BP, i.caller(u.stack, r.BP, 0), st)
		st.Slot = 0
		return true
	case r.BP >= r.SP && r.BP-r.SP <= small && (own == r.BX || r.BP-r.SP < i.methodAt) && u.isReturn(set):
		next, _ = i.sender(u.stack, r.BP)
		next.pc, st.Slot = set, r.BP+8
		if !u.stack.holds(next.sp) || next.sp <= r.BP {
			next.sp = max(r.R13, r.BP+16)
		}
	default:
		return false
	}
	st.Repaired = true
	st.Frames = append(st.Frames, callee)
	u.walk(next, st)
	return true
}
