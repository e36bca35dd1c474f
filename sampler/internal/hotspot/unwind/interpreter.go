package unwind

import "github.com/ccmapd/ccmapd/internal/process"

// Methods knows the methods of the JVM.
type Methods interface {
	// Bytecode returns where the bytecode of the method at an address begins, and its
	// length in bytes: 0 of native and abstract methods. It reports whether the address is
	// that of a Method.
	Bytecode(method uint64) (begin uint64, size int, ok bool)
}

// interpreter reads frames of the interpreter. A frame has words at fixed distances below
// its frame pointer (frame_x86.hpp):
//
//	+8   return address
//	 0   the caller's frame pointer
//	-8   the caller's stack pointer, as it was before arguments were moved
//	-16  its own stack pointer while it calls, as an address or in words from here
//	-24  its method                                              methodAt
//	-64  its bytecode pointer, while it calls                    bcpAt
//
// The last two are not in the JVM's tables. They are checked at each frame, and searched
// for where they are mostly wrong.
type interpreter struct {
	methods        Methods
	methodAt       uint64
	bcpAt          uint64
	right, wrong   int
	votes          map[[2]uint64]int
	method         uint64 // the method that was found last
	begin          uint64
	size           int
	methodIsMethod bool
}

// Distances of the interpreter's frame that are searched, bytes.
const (
	firstDistance = 16
	lastDistance  = 128
)

func newInterpreter(methods Methods) interpreter {
	return interpreter{methods: methods, methodAt: firstMethodAt, bcpAt: firstBCPAt, votes: make(map[[2]uint64]int)}
}

// isMethod reports whether an address is a method's, and keeps what is known of it.
func (i *interpreter) isMethod(addr uint64) bool {
	if addr != i.method {
		i.method, i.methodIsMethod = addr, false
		if plausible(addr) && addr&7 == 0 {
			i.begin, i.size, i.methodIsMethod = i.methods.Bytecode(addr)
		}
	}
	return i.methodIsMethod
}

// bci returns the bytecode index of a bytecode pointer into the method that was asked for
// last.
func (i *interpreter) bci(bcp uint64) (int, bool) {
	if bcp < i.begin || bcp-i.begin >= uint64(i.size) {
		return NoBCI, false
	}
	return int(bcp - i.begin), true
}

// frameAt returns the frame at a frame pointer. Only the innermost one has its bytecode
// pointer in a register.
func (i *interpreter) frameAt(stack view, bp, pc, bcp uint64) (Frame, bool) {
	method, ok := stack.word(bp - i.methodAt)
	if !ok || !i.isMethod(method) {
		return Frame{}, false
	}
	f := Frame{Method: method, PC: pc, Kind: Interpreted, BCI: NoBCI}
	if i.size == 0 {
		f.Kind = Native
		return f, true
	}
	if bcp != 0 {
		f.BCI, ok = i.bci(bcp)
		return f, ok
	}
	saved, _ := stack.word(bp - i.bcpAt)
	f.BCI, ok = i.bci(saved)
	return f, ok
}

// caller returns a frame that has called, and learns from it. The frame has no method where
// nothing makes sense.
func (i *interpreter) caller(stack view, bp, pc uint64) Frame {
	f, ok := i.frameAt(stack, bp, pc, 0)
	if ok {
		i.right++
		return f
	}
	const few = 16
	if i.wrong++; i.wrong > few && i.wrong > i.right {
		i.learn(stack, bp)
	}
	return f
}

// learn votes for the distances that make sense of a frame.
func (i *interpreter) learn(stack view, bp uint64) {
	const enough = 8
	for m := uint64(firstDistance); m <= lastDistance; m += 8 {
		method, ok := stack.word(bp - m)
		if !ok || !i.isMethod(method) || i.size == 0 {
			continue
		}
		for b := uint64(firstDistance); b <= lastDistance; b += 8 {
			saved, ok := stack.word(bp - b)
			if _, is := i.bci(saved); !ok || !is {
				continue
			}
			pair := [2]uint64{m, b}
			if i.votes[pair]++; i.votes[pair] >= enough {
				i.methodAt, i.bcpAt, i.right, i.wrong = m, b, 0, 0
				clear(i.votes)
			}
			return
		}
	}
}

// sender returns the caller of the frame at a frame pointer.
func (i *interpreter) sender(stack view, bp uint64) (frame, bool) {
	pc, ok1 := stack.word(bp + 8)
	sp, ok2 := stack.word(bp - senderSPAt)
	next, ok3 := stack.word(bp)
	return frame{pc, sp, next}, ok1 && ok2 && ok3
}

// calls reports whether the frame at a frame pointer has given its stack pointer to a
// method that it calls: as an address, or in words from the frame pointer since JDK 22.
func (i *interpreter) calls(stack view, bp, sp uint64) bool {
	last, ok := stack.word(bp - lastSPAt)
	return ok && (last == sp || bp+8*last == sp)
}

// interpreted appends the frames of a moment in the interpreter.
func (u *Unwinder) interpreted(m *process.Moment, st *Stack) {
	r, i := &m.Regs, &u.interpreter
	if r.BP >= r.SP {
		if f, ok := i.frameAt(u.stack, r.BP, r.IP, bytecodePointer(r)); ok {
			u.interpretedAt(r.BP, f, st)
			return
		}
	}
	if u.entering(m, st) {
		return
	}
	if r.BP >= r.SP {
		if f, ok := i.frameAt(u.stack, r.BP, r.IP, 0); ok {
			u.interpretedAt(r.BP, f, st)
			return
		}
	}
	u.between(r, st)
}

// interpretedAt appends a frame and its callers.
func (u *Unwinder) interpretedAt(bp uint64, f Frame, st *Stack) {
	st.Frames = append(st.Frames, f)
	st.Slot = bp + 8
	next, ok := u.interpreter.sender(u.stack, bp)
	if !ok {
		u.ends(bp+16, st)
		return
	}
	u.walk(next, st)
}
