package unwind

import "github.com/ccmapd/ccmapd/internal/process"

// native appends the frames of a moment in code that the JVM has not generated: the JVM's
// own, libraries, the vDSO.
func (u *Unwinder) native(m *process.Moment, st *Stack) {
	if st.Thread == 0 {
		st.Why = NotJava
		u.nativePCs(m, st)
		return
	}
	a := u.readAnchor(&u.l.threads, st.Thread+u.l.threads.anchor)
	if a.sp != 0 {
		if f, ok := u.fromAnchor(a); ok && u.tries(f, st) {
			u.nativePCs(m, st)
			st.Slot = 0
			return
		}
	}
	u.nativePCs(m, st)
	if u.byFramePointer(m, st) || u.search(&m.Regs, st) {
		st.Slot, st.Repaired = 0, true
		return
	}
	switch end := u.stack.base + uint64(len(u.stack.bytes)); {
	case a.sp == 0:
		st.Why = NotJava
	case a.sp >= end:
		u.ends(a.sp, st)
	default:
		st.Why = StaleAnchor
	}
}

// fromAnchor returns the frame at an anchor. It is believed only if it is on the copied
// stack and goes on at a return address, or in a stub that has a frame there.
func (u *Unwinder) fromAnchor(a anchor) (frame, bool) {
	if a.sp < u.stack.base || !u.stack.holds(a.sp) || a.sp&7 != 0 {
		return frame{}, false
	}
	if a.pc == 0 {
		a.pc, _ = u.stack.word(a.sp - 8)
	}
	f := frame{a.pc, a.sp, a.fp}
	b, ok := u.cache.returns(a.pc)
	if ok || b == nil || b.kind == methodBlob {
		return f, ok
	}
	slot := a.sp + b.frame - 8
	if b.frame < 16 || !u.verified(slot) {
		return frame{}, false
	}
	return u.senderAt(slot, 0, true), true
}

// nativePCs notes the program counters of native code above the Java frames: those that
// the kernel has found, or those that frame pointers lead to.
func (u *Unwinder) nativePCs(m *process.Moment, st *Stack) {
	const most = 512
	st.Native = append(st.Native, m.Regs.IP)
	if m.Chain != nil {
		for _, pc := range m.Callers() {
			if u.cache.contains(pc) || len(st.Native) == most {
				return
			}
			st.Native = append(st.Native, pc)
		}
		return
	}
	u.eachByFramePointer(&m.Regs, most, func(f frame) bool {
		if u.cache.contains(f.pc) || !plausible(f.pc) {
			return false
		}
		st.Native = append(st.Native, f.pc)
		return true
	})
}

// eachByFramePointer follows the frame pointers of native code.
func (u *Unwinder) eachByFramePointer(r *process.Registers, most int, visit func(frame) bool) {
	for bp, last, n := r.BP, r.SP, 0; n < most && bp >= last; n++ {
		f := u.senderAt(bp+8, 0, true)
		if f.pc == 0 || !visit(f) {
			return
		}
		bp, last = f.bp, bp+16
	}
}

// byFramePointer appends the frames of Java that native code was called from, by its frame
// pointers. Such calls set no anchor if they never stop for the JVM, such as those that
// read the clock.
func (u *Unwinder) byFramePointer(m *process.Moment, st *Stack) bool {
	const most = 64
	found := false
	u.eachByFramePointer(&m.Regs, most, func(f frame) bool {
		if !u.cache.contains(f.pc) {
			return plausible(f.pc)
		}
		found = u.plausible(f) && u.tries(f, st) || u.inStub(f, st)
		return false
	})
	return found
}

// inStub appends the callers of a stub that has called native code.
func (u *Unwinder) inStub(f frame, st *Stack) bool {
	b := u.cache.find(f.pc)
	if b == nil || b.kind == methodBlob || b.kind == interpreterBlob || b.frame < 16 {
		return false
	}
	next := u.senderAt(f.sp+b.frame-8, 0, true)
	return u.plausible(next) && u.tries(next, st)
}

// wrapper knows where the call stub's frame has its JavaCallWrapper: so many bytes below
// its frame pointer. The JVM's tables do not have it, so it is
// searched for until it was right once.
type wrapper struct {
	at    uint64
	found bool
}

const mostWrapper = 128

// An ending says how a walk goes on from the call stub.
type ending uint8

const (
	noWrapper ending = iota
	goesOn
	atRoot
	beyondCopy // at a frame that was not copied
)

// entry goes on from the call stub: to the frame of Java that has called the native code
// which has called Java, or to the root.
func (u *Unwinder) entry(f frame) (frame, ending) {
	next, end := u.entryAt(f, u.wrapper.at)
	if end != noWrapper || u.wrapper.found {
		u.wrapper.found = u.wrapper.found || end != noWrapper
		return next, end
	}
	for at := uint64(8); at <= mostWrapper; at += 8 {
		if next, end := u.entryAt(f, at); end != noWrapper {
			u.wrapper = wrapper{at, true}
			return next, end
		}
	}
	return frame{}, noWrapper
}

// entryAt reads the wrapper at a distance below the frame pointer.
func (u *Unwinder) entryAt(f frame, at uint64) (frame, ending) {
	addr, ok := u.stack.word(f.bp - at)
	if !ok || addr <= f.bp || addr&7 != 0 || addr-f.bp > maxFrame {
		return frame{}, noWrapper
	}
	addr += u.l.wrapperAnchor
	l := &u.l.threads
	sp, ok1 := u.onStack(addr + l.sp)
	fp, ok2 := u.onStack(addr + l.fp)
	pc, ok3 := u.onStack(addr + l.pc)
	switch {
	case !ok1 || !ok2 || !ok3:
		return frame{}, noWrapper
	case sp == 0 && pc == 0:
		return frame{}, atRoot
	case sp <= addr || sp&7 != 0 || sp-addr > maxFrame<<3:
		return frame{}, noWrapper
	case !u.stack.holds(sp):
		return frame{}, beyondCopy
	}
	if next, ok := u.fromAnchor(anchor{sp, fp, pc}); ok {
		return next, goesOn
	}
	return frame{}, noWrapper
}

// onStack returns a word of the stack, from memory where the copy has ended: the wrapper
// does not change while its call lasts.
func (u *Unwinder) onStack(addr uint64) (uint64, bool) {
	if w, ok := u.stack.word(addr); ok {
		return w, true
	}
	if addr < u.stack.base || u.spent() {
		return 0, false
	}
	return u.memory.word(addr), true
}
