package unwind

import (
	"bytes"

	"github.com/ccmapd/ccmapd/internal/process"
)

// slots appends where the return address of compiled code may be, the likely first: in its slot of the whole frame
// or, while a frame is set up or left, at the stack pointer or above the saved frame pointer.
func (u *Unwinder) slots(top *blob, r *process.Registers, whole uint64, dst []uint64) []uint64 {
	if above, ok := u.leaving(r.IP); ok { // in a recursion the word of a whole frame can look right, too
		dst = append(dst, r.SP+above)
	}
	if r.IP-top.begin < top.complete || top.frame < 16 {
		return append(dst, r.SP, r.SP+8, whole)
	}
	return append(dst, whole, r.SP, r.SP+8)
}

// leaving reports whether compiled code at pc is about to return, and how far above the stack
// pointer the return address is then. Code returns by these instructions only (JDK 17 to 25,
// MachEpilogNode and return_op): pop rbp; cmp rsp, [r15+…], to stop for the JVM; ja; ret.
func (u *Unwinder) leaving(pc uint64) (above uint64, ok bool) {
	const before = 7 // bytes of the comparison
	code, err := u.readBytes(pc-before, before+3)
	if err != nil {
		return 0, false
	}
	compare, next := []byte{0x49, 0x3b, 0xa7}, code[before:]
	switch {
	case next[0] == 0x5d:
		return 8, true
	case next[0] == 0xc3, bytes.HasPrefix(next, compare):
		return 0, true
	case next[0] == 0x0f && next[1] == 0x87 && bytes.HasPrefix(code, compare):
		return 0, true
	}
	return 0, false
}

// near returns where a caller's frame is, if the callee has none, has saved the frame
// pointer, or has set up a frame with it.
func (u *Unwinder) near(r *process.Registers) []frame {
	return []frame{u.senderAt(r.SP, r.BP, false), u.senderAt(r.SP+8, 0, true), u.senderAt(r.BP+8, 0, true)}
}
