package unwind

import (
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// Unwinder finds the Java frames of a JVM's threads. It belongs to one goroutine.
type Unwinder struct {
	memory
	l           *layout
	cache       codeCache
	threads     threads
	interpreter interpreter
	wrapper     wrapper
	stack       view // of the moment
	cut         bool // the stack goes on beyond the copy
	trial       Stack
}

// New returns the unwinder of a JVM. It fails if the JVM's tables lack something.
func New(vm *vmstructs.VM, methods Methods) (*Unwinder, error) {
	l, err := newLayout(vm)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of frames: %w", err)
	}
	return newUnwinder(l, vm.Memory, methods), nil
}

// Bytes returns about how much memory the copies of code take.
func (u *Unwinder) Bytes() int64 { return int64(u.cache.held) }

func newUnwinder(l *layout, live vmstructs.Memory, methods Methods) *Unwinder {
	u := &Unwinder{memory: memory{live: live}, l: l, interpreter: newInterpreter(methods), wrapper: wrapper{at: firstWrapperAt}}
	u.cache = codeCache{memory: &u.memory, l: l}
	u.threads = threads{memory: &u.memory, l: &l.threads}
	return u
}

// frame is a place on the stack: the code that goes on at pc when the callee has returned,
// and its registers then.
type frame struct{ pc, sp, bp uint64 }

// maxFrames bounds the frames of a stack, inlined ones apart.
const maxFrames = 8192

// Unwind finds the Java frames of a moment. It reuses the slices of st.
func (u *Unwinder) Unwind(m *process.Moment, st *Stack) {
	*st = Stack{Frames: st.Frames[:0], Native: st.Native[:0]}
	u.renewBudget(m.Objects)
	u.cache.beginMoment(m.Time)
	u.stack, u.cut = view{m.Regs.SP, m.Stack}, m.Cut
	if !m.HasRegs {
		st.Why = NoRegisters
		return
	}
	st.Thread = u.threads.find(m.TID, m.Time)
	top := u.cache.find(m.Regs.IP)
	switch {
	case top == nil:
		u.native(m, st)
	case top.kind == interpreterBlob:
		u.interpreted(m, st)
	case top.kind == methodBlob, top.kind == nativeBlob:
		u.compiled(m, top, st)
	default:
		u.stub(m, top, st)
	}
	if u.spent() {
		st.Why, st.Rooted = TooMuch, false
	}
}

// InCode reports whether an address is in code that the JVM has generated, as far as the
// last moment has shown.
func (u *Unwinder) InCode(pc uint64) bool { return u.cache.contains(pc) }

// compiled appends the frames of a moment in compiled code. Its frame may be about to be
// set up, or to be left.
func (u *Unwinder) compiled(m *process.Moment, top *blob, st *Stack) {
	r := &m.Regs
	st.Frames = u.cache.frames(top, r.IP, true, st.Frames)
	whole := r.SP + top.frame - 8
	var room [4]uint64
	var callers []frame
	for _, slot := range u.slots(top, r, whole, room[:0]) {
		if u.verified(slot) {
			callers = append(callers, u.senderAt(slot, r.BP, slot != r.SP))
		}
	}
	if u.leading(callers, st) {
		st.Repaired = st.Slot != whole
		return
	}
	if _, ok := u.stack.word(whole); !ok && len(callers) == 0 {
		u.ends(whole, st)
		return
	}
	st.Repaired = true
	u.lastResort(callers, r, st)
}

// Entry returns where the generated code of an address begins; the address itself where there is
// none.
func (u *Unwinder) Entry(pc uint64) uint64 {
	if b := u.cache.find(pc); b != nil {
		return b.begin
	}
	return pc
}

// senderAt returns the frame whose return address is in a slot. The frame pointer is below
// the slot if the callee has saved it.
func (u *Unwinder) senderAt(slot, bp uint64, saved bool) frame {
	pc, _ := u.stack.word(slot)
	if saved {
		bp, _ = u.stack.word(slot - 8)
	}
	return frame{pc, slot + 8, bp}
}

// verified reports whether a slot holds a return address.
func (u *Unwinder) verified(slot uint64) bool {
	pc, ok := u.stack.word(slot)
	return ok && u.isReturn(pc)
}

func (u *Unwinder) isReturn(pc uint64) bool {
	_, ok := u.cache.returns(pc)
	return ok
}

// stub appends the frames of a moment in other generated code: stubs, adapters. Most have
// no frame or a small one.
func (u *Unwinder) stub(m *process.Moment, top *blob, st *Stack) {
	r := &m.Regs
	st.Stub = top.name
	candidates := u.near(r)
	if top.frame >= 16 {
		candidates = append(candidates[:1:1], append([]frame{u.senderAt(r.SP+top.frame-8, 0, true)}, candidates[1:]...)...)
	}
	st.Repaired = true
	if u.leading(candidates, st) {
		return
	}
	if f, ok := u.interpreter.frameAt(u.stack, r.BP, r.IP, 0); ok { // an adapter that the interpreter has called
		u.interpretedAt(r.BP, f, st)
		return
	}
	if !u.lastResort(candidates, r, st) {
		u.native(m, st) // the JVM has called the stub
	}
}

// leading walks from the first of some frames that leads to a root.
func (u *Unwinder) leading(candidates []frame, st *Stack) bool {
	return slices.ContainsFunc(candidates, func(f frame) bool { return u.plausible(f) && u.tries(f, st) })
}

// lastResort looks for a caller on the stack, which code may have pushed words on. Then it
// takes the first of some frames that is a caller at all.
func (u *Unwinder) lastResort(candidates []frame, r *process.Registers, st *Stack) bool {
	if u.search(r, st) {
		return true
	}
	i := slices.IndexFunc(candidates, u.plausible)
	if i < 0 {
		return false
	}
	st.Slot = candidates[i].sp - 8
	u.walk(candidates[i], st)
	return true
}

// tries walks from a frame, and keeps the result only if it reaches a root, or some frames
// and then the end of the copy.
func (u *Unwinder) tries(f frame, st *Stack) bool {
	u.trial = Stack{Frames: u.trial.Frames[:0]}
	u.walk(f, &u.trial)
	const enough = 4 // frames that make sense by no accident, if nothing more was copied
	cut := u.trial.Why == EndOfCopy && u.cut && len(u.trial.Frames) >= enough
	if !u.trial.Rooted && !cut && u.trial.Why != Continuation {
		return false
	}
	st.Frames = append(st.Frames, u.trial.Frames...)
	st.Rooted, st.Why, st.WantDump = u.trial.Rooted, u.trial.Why, u.trial.WantDump
	if st.Slot == 0 {
		st.Slot = f.sp - 8
	}
	return true
}

// plausible reports whether a frame may be a caller's: its address is one that calls
// return to, or it is in compiled code whose caller's is. Compiled code has no descriptors
// of calls that cannot stop for the JVM, such as those of a copy loop.
func (u *Unwinder) plausible(f frame) bool {
	b, ok := u.cache.returns(f.pc)
	if ok || b == nil {
		return ok
	}
	return b.kind == methodBlob && b.frame >= 16 && u.verified(f.sp+b.frame-8)
}

// search looks for the caller on the stack, word by word. Words that are left over from
// earlier calls can look like it, so it must lead to a root.
func (u *Unwinder) search(r *process.Registers, st *Stack) bool {
	const most, tries = 32 << 10, 64 // bytes, candidates
	tried := 0
	for slot := r.SP; slot < r.SP+most && tried < tries; slot += 8 {
		pc, ok := u.stack.word(slot)
		if !ok {
			break
		}
		if !u.cache.contains(pc) || !u.work(1) {
			continue
		}
		f := u.senderAt(slot, r.BP, slot != r.SP)
		if !u.plausible(f) {
			continue
		}
		tried++
		if u.tries(f, st) {
			st.Repaired = true
			return true
		}
	}
	if st.Why == Complete {
		st.Why = LostCaller
	}
	return false
}

// walk appends the frames from one on, up to the root.
func (u *Unwinder) walk(f frame, st *Stack) {
	for n := range maxFrames {
		if !u.work(1) {
			st.Why = TooMuch
			return
		}
		if f.pc == u.cache.callStub {
			next, end := u.entry(f)
			if end != goesOn {
				u.finish(end, f, st)
				return
			}
			f = next
			continue
		}
		b, ok := u.cache.returns(f.pc)
		if !ok && (n > 0 || b == nil || b.kind != methodBlob) {
			u.lost(f.sp, st)
			return
		}
		slot := f.sp + b.frame - 8
		switch {
		case f.pc == u.cache.continuation && f.pc != 0:
			st.Rooted, st.Why = true, Complete
			return
		case b.kind == stubBlob:
			st.Why = Continuation
			return
		case b.kind == interpreterBlob:
			call := u.interpreter.caller(u.stack, f.bp, f.pc)
			if call.Method == 0 {
				u.lost(f.bp, st)
				return
			}
			st.Frames = append(st.Frames, call)
			next, ok := u.interpreter.sender(u.stack, f.bp)
			if !ok || next.sp < f.bp {
				u.lost(f.bp+8, st)
				return
			}
			f = next
			continue
		}
		st.Frames = u.cache.frames(b, u.original(b, f), !ok, st.Frames)
		pc, ok1 := u.stack.word(slot)
		bp, ok2 := u.stack.word(slot - 8)
		if !ok1 || !ok2 || b.frame < 16 {
			u.lost(slot, st)
			return
		}
		f = frame{pc, slot + 8, bp}
	}
	st.Why = TooMuch
}

// finish ends a walk at the call stub.
func (u *Unwinder) finish(end ending, f frame, st *Stack) {
	switch end {
	case atRoot:
		st.Rooted, st.Why = true, Complete
	case beyondCopy:
		st.Why, st.WantDump = EndOfCopy, u.cut
	default:
		u.lost(f.bp, st)
	}
}

// original returns where a frame goes on. A frame that is to be deoptimized goes on at a
// handler, and has the original address in a slot.
func (u *Unwinder) original(b *blob, f frame) uint64 {
	if f.pc == b.deopt[0] || f.pc == b.deopt[1] {
		if pc, ok := u.stack.word(f.sp + b.origPC); ok && pc >= b.begin && pc < b.end {
			return pc
		}
	}
	return f.pc
}

// lost ends a walk at an address of the stack: the copy ends there, or nothing makes sense.
func (u *Unwinder) lost(at uint64, st *Stack) {
	if at >= u.stack.base+uint64(len(u.stack.bytes)) || at+8 >= u.stack.base+uint64(len(u.stack.bytes)) && u.stack.holds(at) {
		u.ends(at, st)
		return
	}
	st.Why = LostFrame
}

// ends ends a walk where the copied stack ends.
func (u *Unwinder) ends(at uint64, st *Stack) {
	const far = 8 << 20 // bytes: no stack has so much above a frame of it that makes sense
	if at < u.stack.base || at-u.stack.base > far+uint64(len(u.stack.bytes)) {
		st.Why = LostFrame
		return
	}
	st.Why, st.WantDump = EndOfCopy, u.cut
}
