package ccmap

import "unsafe"

// Bounds of the last stacks. A thread that was forgotten loses nothing but speed,
// unless its source walks partially: then its next partial sample is orphaned.
const (
	maxLastStacks = 1 << 14
	maxLastFrames = 1 << 20 // room in all last stacks; 8 MB

	// Buffers with more room are not passed on: few stacks are as deep, and the next
	// thread would hold room that others need.
	maxSpareFrames = 1 << 8
)

// lastStack is the last stack of one thread, innermost frame first. The frames are at the end
// of their buffer, so that the outer ones stay where they are while the inner ones change.
type lastStack struct {
	thread    uint64
	goroutine uint64
	buffer    []Frame
	frames    []Frame // the end of buffer
	cut       bool    // the stack is truncated: its outermost frames are its labels, if any, and the pseudo frame

	node       NodeID // that its sample was counted at; 0 without frames
	generation uint64 // of the map's node ids when node was found

	newer, older *lastStack // neighbours in order of use
}

// clear forgets the stack and keeps its buffers.
func (t *lastStack) clear() {
	t.frames, t.cut, t.node = t.frames[:0], false, 0
}

// resize sets the depth and keeps the outermost kept frames. The caller writes the
// others.
func (t *lastStack) resize(kept, depth int) {
	if depth > len(t.buffer) {
		t.buffer = make([]Frame, depth+depth/4)
		copy(t.buffer[len(t.buffer)-kept:], t.frames[len(t.frames)-kept:])
	}
	t.frames = t.buffer[len(t.buffer)-depth:]
}

// has reports whether the stack has the method at a depth, where the outermost frame
// has depth 1.
func (t *lastStack) has(depth uint32, method MethodID) bool {
	return !t.cut && int64(depth) <= int64(len(t.frames)) && t.frames[len(t.frames)-int(depth)].Method == method
}

// common returns how many of the outermost nodes of the last stack the new one has too.
// The new stack is the first base frames of the last one and then frames, innermost
// first. If only the offset of a frame has changed, the frame keeps its node, and the
// last stack takes the new offset.
func (t *lastStack) common(base int, frames []Frame) int {
	old := t.frames[:len(t.frames)-base]
	n := min(len(old), len(frames))
	old, frames = old[len(old)-n:], frames[len(frames)-n:]
	i := n - 1 - sameOutermost(old, frames)
	if i < 0 {
		return base + n
	}
	kept := base + n - 1 - i
	if frames[i].Method != old[i].Method {
		return kept
	}
	old[i].Offset = frames[i].Offset
	return kept + 1
}

// sameOutermost returns how many of the outermost frames of two stacks of one depth are the same.
func sameOutermost(a, b []Frame) int {
	i := len(a)
	for ; i >= 4; i -= 4 {
		x, y := (*[4]Frame)(a[i-4:]), (*[4]Frame)(b[i-4:])
		if (x[0].word()^y[0].word())|(x[1].word()^y[1].word())|(x[2].word()^y[2].word())|(x[3].word()^y[3].word()) != 0 {
			break
		}
	}
	for i > 0 && a[i-1] == b[i-1] {
		i--
	}
	return len(a) - i
}

// lastStacks remembers the last stack of the threads used most recently. Threads may
// come and go by the million. If there is no room for one more, it takes over the
// last stack unused for longest, with its buffers. So a sample of a new thread
// allocates nothing, unless its stack is deep.
type lastStacks struct {
	byThread map[uint64]*lastStack
	ends     lastStack    // of no thread: ends.newer is the oldest, ends.older the newest
	spare    []*lastStack // of no thread, in no list
	frames   int          // room for frames, summed over all
	most     struct{ threads, frames int }
	forgot   bool // a thread was forgotten that may be alive
}

func (ls *lastStacks) init() {
	ls.byThread = make(map[uint64]*lastStack)
	ls.ends.newer, ls.ends.older = &ls.ends, &ls.ends
	ls.most.threads, ls.most.frames = maxLastStacks, maxLastFrames
}

// ForgetThreads drops the last stacks of all threads, for a map that goes on with another
// process: a thread there may have the address of one here, and its partial samples must not
// be completed from the stacks of that one.
func (m *Map) ForgetThreads() {
	most := m.last.most
	m.last.init()
	m.last.spare, m.last.frames, m.last.forgot, m.last.most = nil, 0, false, most
}

// bound limits the last stacks to a quarter of that many bytes, if this is less than
// the other bounds.
func (ls *lastStacks) bound(bytes int64) {
	const fewThreads, fewFrames = 16, 2 * maxSpareFrames // small enough for any budget
	ls.most.threads = int(min(maxLastStacks, max(bytes/16/perLastStack, fewThreads)))
	ls.most.frames = int(min(maxLastFrames, max(bytes/16*3/perLastFrame, fewFrames)))
}

// of returns the last stack of a thread, and makes it the newest. It is empty for a
// new thread, and valid until the next call of a method of ls other than resize.
func (ls *lastStacks) of(thread, goroutine uint64) *lastStack {
	t := ls.ends.older
	known := t != &ls.ends && t.thread == thread
	if !known {
		t, known = ls.renewed(thread)
	}
	if !known || t.goroutine != goroutine { // the address may be another goroutine's now
		t.clear()
		t.thread, t.goroutine = thread, goroutine
	}
	return t
}

// renewed makes a last stack that is not the newest the newest. It makes one for a new
// thread.
func (ls *lastStacks) renewed(thread uint64) (t *lastStack, known bool) {
	t, known = ls.byThread[thread]
	if known {
		t.unlink()
	} else {
		t = ls.takeUnowned()
		ls.byThread[thread] = t
	}
	t.link(ls.ends.older, &ls.ends)
	return t, known
}

// takeUnowned returns a last stack of no thread: a spare one, the oldest, or a new one.
func (ls *lastStacks) takeUnowned() *lastStack {
	if len(ls.spare) == 0 && ls.full() {
		ls.forgetOldest()
	}
	if len(ls.spare) == 0 {
		return new(lastStack)
	}
	return ls.popSpare()
}

// full reports whether one more last stack may break a bound.
func (ls *lastStacks) full() bool {
	return len(ls.byThread) >= ls.most.threads || ls.frames > ls.most.frames-maxSpareFrames
}

// forgetOldest makes the oldest last stack a spare one.
func (ls *lastStacks) forgetOldest() {
	ls.release(ls.ends.newer)
	ls.forgot = true
}

// release takes a last stack from its thread. It keeps it as a spare one unless its
// buffers are too large to pass on.
func (ls *lastStacks) release(t *lastStack) {
	delete(ls.byThread, t.thread)
	t.unlink()
	if len(t.buffer) > maxSpareFrames {
		ls.frames -= len(t.buffer)
		return
	}
	ls.spare = append(ls.spare, t)
}

func (ls *lastStacks) popSpare() *lastStack {
	last := len(ls.spare) - 1
	t := ls.spare[last]
	ls.spare[last] = nil
	ls.spare = ls.spare[:last]
	return t
}

// resize sets the depth of a last stack.
func (ls *lastStacks) resize(t *lastStack, kept, depth int) {
	ls.frames -= len(t.buffer)
	t.resize(kept, depth)
	ls.frames += len(t.buffer)
}

// trim drops spare last stacks, then the oldest, until the room for frames is within
// its bound. Each call of resize that adds room pays for the trim that takes it back.
func (ls *lastStacks) trim() {
	for ls.frames > ls.most.frames {
		if len(ls.spare) == 0 {
			ls.forgetOldest()
		} else {
			ls.frames -= len(ls.popSpare().buffer)
		}
	}
}

// link puts t, which is in no list, between two neighbours.
func (t *lastStack) link(older, newer *lastStack) {
	t.older, t.newer = older, newer
	older.newer, newer.older = t, t
}

func (t *lastStack) unlink() {
	t.older.newer, t.newer.older = t.newer, t.older
}

// bytes returns the memory held, with the entries of the index by thread.
func (ls *lastStacks) bytes() int64 {
	return int64(len(ls.byThread)+len(ls.spare))*perLastStack + int64(ls.frames)*perLastFrame
}

// Bytes of a last stack, with its entry in the index and room for it among the spare
// ones, and bytes of one of its frames.
const (
	perLastStack = int64(unsafe.Sizeof(lastStack{})) + 5*int64(unsafe.Sizeof(uint64(0)))
	perLastFrame = int64(unsafe.Sizeof(Frame{}))
)
