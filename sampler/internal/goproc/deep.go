package goproc

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// A moment holds 64 KiB of a stack at most. The rest is read from the process, a little later, and is believed
// where it fits: the words at the copy's end must still be there, and each function's frame pointer must lead
// to its caller's. Where the stack is too long for that, or has changed, its outermost functions are found
// from its outer end alone; see outerEnd.

// A stack of more than mostFrames functions keeps its ends: the innermost functions, and mostOuter outermost
// ones. So recursion of any depth is one context, and a sample of it fits into every queue.
const (
	mostFrames = 2048
	mostOuter  = 64
	mostInner  = mostFrames - mostOuter
)

// elidedPC stands for the functions that are left out of a deep stack. It is no code of any file.
const elidedPC = 1

// trim leaves out what a deep stack has between its ends.
func (s *stack) trim() {
	e := &s.Elided
	if e.At == 0 {
		if len(s.PCs) <= mostFrames {
			return
		}
		e.At, e.Frames = mostInner, 1
		s.PCs[e.At] = elidedPC
	}
	from, to := e.At+1, len(s.PCs)-mostOuter
	if to > from {
		e.Frames += uint64(to - from)
		s.PCs = slices.Delete(s.PCs, from, to)
	}
}

// skip leaves out an unknown number of functions, and what the stack has beyond its innermost ones.
func (s *stack) skip() {
	e := &s.Elided
	if e.At == 0 {
		e.At = min(len(s.PCs), mostInner)
		s.PCs = append(s.PCs, elidedPC)
		e.Frames = uint64(len(s.PCs) - 1 - e.At)
		s.PCs[e.At] = elidedPC
	} else {
		e.Frames += uint64(len(s.PCs) - 1 - e.At)
	}
	e.Least, s.PCs = true, s.PCs[:e.At+1]
}

// frontier is where a piece of a stack ends: at a function whose return address lies beyond it.
type frontier struct {
	position
	slots  [seamSlots]uint64 // addresses of the last return addresses in the piece, in a ring
	passed int               // return addresses
}

// seamSlots is how many return addresses at the end of a copy must be there still when more is read.
const seamSlots = 8

// pass notes a return address, and the frame pointer that the function has saved below it.
func (f *frontier) pass(p *place, slot uint64, view stackView) {
	f.slots[f.passed%seamSlots] = slot
	f.passed++
	if p.links() {
		f.bp, f.linked = view.word(slot - 8)
	}
}

// Bounds of what is read of deep stacks.
const (
	deepBytes   = 32 << 20 // of all stacks, in a second
	deepReserve = 16 << 20 // of these, for the ends of stacks
	deepSteps   = 1 << 19  // functions of all stacks, in a second
	keepSteps   = 1 << 18  // of these, for functions that are kept
	unboundDeep = 1 << 20  // bytes of a stack whose end is not known
	deepPiece   = 16 << 10 // bytes, at once
	deepPage    = 4 << 10
	outerBytes  = 16 << 10 // the outer end of a stack
	maxResting  = 1 << 12  // stacks whose outermost functions are remembered
)

// far reads stacks beyond the bytes of their moments. The rest of its budget lasts until renew.
type far struct {
	memory       process.Memory // as it is now
	bytes, steps int            // that are left
	view         stackView      // what was read last
	piece        [deepPiece]byte
	end          [outerBytes]byte
	resting      map[uint64]uint64      // by the end of a stack: a hash of its outermost functions
	next         [outerBytes / 8]int32  // see outerEnd
	shift        [outerBytes / 8]uint64 // see follows
}

func (f *far) renew() { f.bytes, f.steps, f.view = deepBytes, deepSteps, stackView{} }

// forgetMoment forgets what was read for another moment.
func (f *far) forgetMoment() { f.view = stackView{} }

// word returns a word of a stack that ends at hi, as it is now. It reads up to the end of a piece, or of a page
// where memory ends.
func (f *far) word(addr, hi uint64) (uint64, bool) {
	if w, ok := f.view.word(addr); ok {
		return w, true
	}
	for size := uint64(deepPiece); size >= deepPage; size /= 4 {
		n := min(size-addr%size, hi-addr)
		if addr&7 != 0 || hi < addr || n < 8 || f.bytes < int(n) {
			return 0, false
		}
		f.bytes -= int(n)
		if f.memory.Read(addr, f.piece[:n]) == nil {
			f.view = stackView{addr, f.piece[:n]}
			return f.view.word(addr)
		}
	}
	return 0, false
}

// joins reports whether the copy's last return addresses, and the frame pointers below them, are still in memory.
func (f *far) joins(front *frontier, copied stackView) bool {
	n := min(front.passed, seamSlots)
	if n == 0 {
		return true // the copy has nothing, and frame pointers alone must show that the rest fits
	}
	for i := range n {
		slot := front.slots[(front.passed-n+i)%seamSlots]
		for _, at := range [2]uint64{slot - 8, slot} {
			was, ok1 := copied.word(at)
			is, ok2 := f.word(at, copied.base+uint64(len(copied.bytes)))
			if ok1 && (!ok2 || was != is) {
				return false
			}
		}
	}
	f.view = stackView{} // go on beyond it
	return true
}

// beyond appends the callers of the outermost function of a stack, which is at the frontier of a piece. The
// stack ends at hi; 0: that is not known.
func (u *unwinder) beyond(m *process.Moment, front frontier, copied stackView, hi uint64, out *stack) {
	outer := stackView{base: m.Outer.Addr, bytes: m.Outer.Bytes}
	if !outer.ends(hi) {
		outer = stackView{}
	}
	if out.PCs[len(out.PCs)-1] != front.pc {
		return
	}
	if slot := u.code.at(front.pc).slot(front.sp); outer.has(slot) {
		var end ending
		out.PCs, end = u.unwindDump(front.pc, front.sp, outer, out.PCs[:len(out.PCs)-1])
		if end == endAtRoot {
			return
		}
		front = u.front
	}
	u.far.forgetMoment()
	at, most := front.position, hi
	if hi == 0 {
		most = at.sp + unboundDeep
	}
	joined := u.far.joins(&front, copied)
	if joined && u.walkFar(&at, most, u.stepsTo(&at, most, len(out.PCs)), out) == endAtRoot {
		u.far.rest(hi, out.PCs)
		return
	}
	exact := len(outer.bytes) > 0
	if !exact && hi != 0 {
		outer = u.far.readEnd(hi)
	}
	ends := u.outerEnd(outer, hi, exact)
	if len(ends) == 0 || at.sp >= outer.base || !exact && !joined && !u.far.rests(hi, ends) {
		return
	}
	u.far.rest(hi, ends)
	out.skip()
	out.PCs = append(out.PCs, ends...)
}

// rest notes the outermost functions of the stack that ends at hi.
func (f *far) rest(hi uint64, pcs []uint64) {
	if f.resting == nil || len(f.resting) >= maxResting {
		f.resting = make(map[uint64]uint64)
	}
	f.resting[hi] = hashOf(pcs)
}

// rests reports whether a stack had these outermost functions in an earlier moment, too. Then it has had them
// in between.
func (f *far) rests(hi uint64, pcs []uint64) bool {
	hash, seen := f.resting[hi]
	return seen && hash == hashOf(pcs)
}

// hashOf returns a hash of the outermost functions of a stack.
func hashOf(pcs []uint64) uint64 {
	hash := fnv.New64a()
	var word [8]byte
	for _, pc := range pcs[max(len(pcs)-mostOuter, 0):] {
		binary.NativeEndian.PutUint64(word[:], pc)
		hash.Write(word[:])
	}
	return hash.Sum64()
}

// stepsTo returns how many functions of a stack may be walked: all, if the budget has the bytes, or else those
// that are kept.
func (u *unwinder) stepsTo(at *position, most uint64, have int) int {
	steps := mostInner - have
	if most-at.sp <= uint64(max(u.far.bytes-deepReserve, 0)) {
		steps = max(steps, u.far.steps-keepSteps)
	}
	return min(steps, u.far.steps)
}

// walkFar walks up a stack by SP deltas, through memory as it is now, and appends the functions. Each frame must
// link to the next one: assembly need not have a frame pointer. It goes at most so many steps, and keeps the
// ends of what it finds.
func (u *unwinder) walkFar(at *position, hi uint64, steps int, out *stack) ending {
	for ; steps > 0; steps-- {
		u.far.steps--
		p := u.code.at(at.pc)
		switch {
		case p.kind != gosym.KindGo, !p.root && (!p.hasDelta || p.stackSwitch()):
			return endLost
		case p.root:
			return endAtRoot
		}
		slot := p.slot(at.sp)
		if p.links() {
			if at.linked && at.bp != slot-8 && !p.asm {
				return endLost
			}
			at.bp, at.linked = u.far.word(slot-8, hi)
		}
		pc, ok := u.far.word(slot, hi)
		if !ok || u.code.at(pc).kind != gosym.KindGo {
			return endOfDump
		}
		at.pc, at.sp = pc, p.callerSP(at.sp)
		if out.PCs = append(out.PCs, pc); len(out.PCs) >= 2*mostFrames {
			out.trim()
		}
	}
	return endOfDump
}

// readEnd reads the outer end of a stack that ends at hi, as it is now.
func (f *far) readEnd(hi uint64) stackView {
	if f.bytes < outerBytes || hi < outerBytes || f.memory.Read(hi-outerBytes, f.end[:]) != nil {
		return stackView{}
	}
	f.bytes -= outerBytes
	return stackView{hi - outerBytes, f.end[:]}
}

// outerEnd returns the outermost functions of a stack, innermost first, out of the piece that the stack ends with.
//
// Nothing leads into the piece. But each return address in it leads on: the SP delta of its function says where
// the next one is, and the frame pointer below it must point there. So chains of frames end in the root, and
// the stack is one of them. All others are what is left of returned calls, in words that a function has
// not written to. They lie within that function's frame, and go over into the stack where it ends. So the part
// that all chains from the piece's inner quarter have in common is the stack.
//
// While the runtime moves a stack, the frame pointers in the copy still point to the place before
// (runtime.copystack, Go 1.18 to 1.27). All are off by the same distance then. moves permits that.
func (u *unwinder) outerEnd(v stackView, hi uint64, moves bool) []uint64 {
	words := len(v.bytes) / 8
	if !v.ends(hi) || words > len(u.far.next) || v.base&7 != 0 {
		return nil
	}
	next := u.far.next[:words]
	for i := words - 1; i >= 0; i-- {
		if next[i] = u.follows(v, i, next); u.far.shift[i] != 0 && !moves {
			next[i] = nowhereElse
		}
	}
	from := common(next, words/4)
	if from < 0 {
		return nil
	}
	pcs := u.walked[:0]
	for i := from; ; i = int(next[i]) {
		pc, _ := v.word(v.base + 8*uint64(i))
		pcs = append(pcs, pc)
		if next[i] == atRoot {
			break
		}
	}
	u.walked = pcs
	return pcs[max(len(pcs)-mostOuter, 0):]
}

// What a word of the outer end leads to, if not to another word.
const (
	nowhereElse = -1 // it is no return address, or leads to none
	atRoot      = -2 // its function is called by nothing
)

// follows returns which word has the next return address, if a word is a return address that leads to a root.
func (u *unwinder) follows(v stackView, i int, next []int32) int32 {
	u.far.shift[i] = 0
	at := v.base + 8*uint64(i)
	pc, _ := v.word(at)
	if i == 0 || !u.code.isGo(pc) {
		return nowhereElse
	}
	p := u.code.at(pc)
	if p.kind != gosym.KindGo || p.root {
		if p.root {
			return atRoot
		}
		return nowhereElse
	}
	link, _ := v.word(at - 8)
	slot := p.slotAbove(at)
	j := (slot - v.base) / 8
	if !p.hasDelta || !p.links() || p.delta&7 != 0 || p.stackSwitch() || j >= uint64(len(next)) || next[j] == nowhereElse {
		return nowhereElse
	}
	u.far.shift[i] = link - (slot - 8)
	if next[j] != atRoot && u.far.shift[i] != u.far.shift[j] {
		return nowhereElse
	}
	return int32(j)
}

// common returns where the part begins that all chains have in common which begin before a word; -1: there is
// none.
func common(next []int32, before int) int {
	first := slices.IndexFunc(next[:before], func(n int32) bool { return n != nowhereElse })
	if first < 0 || next[first] == atRoot {
		return -1
	}
	on := first // the first word of all chains so far
	for i := first + 1; i < before; i++ {
		if next[i] == nowhereElse {
			continue
		}
		a, b := on, i
		for a != b { // the one that is behind goes on
			if a < b {
				a = int(next[a])
			} else {
				b = int(next[b])
			}
			if a < 0 || b < 0 {
				return -1
			}
		}
		on = a
	}
	return on
}

// has reports whether a word is in the piece.
func (v stackView) has(addr uint64) bool {
	_, ok := v.word(addr)
	return ok
}

// ends reports whether the piece goes up to an address.
func (v stackView) ends(hi uint64) bool { return len(v.bytes) > 0 && v.base+uint64(len(v.bytes)) == hi }
