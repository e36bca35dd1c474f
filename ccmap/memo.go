package ccmap

import "unsafe"

// Bounds of what is remembered of threads. A thread that was forgotten loses
// nothing but speed, unless its source walks partially: then its next partial
// sample is orphaned.
const (
	maxMemos      = 1 << 14
	maxMemoFrames = 1 << 20 // room in all memos; 12 MB

	// Buffers with more room are not handed on: stacks are seldom as deep, and
	// the next thread would hold room that others need.
	maxSpareFrames = 1 << 8
)

// memo is the last stack of one thread, outermost frame first.
type memo struct {
	thread    uint64
	goroutine uint64
	frames    []Frame
	path      []NodeID // of the frames, same length
	cut       bool     // frames[0] is the pseudo frame of a truncated stack

	generation uint64 // of the map, that the path is of

	newer, older *memo // neighbours in order of use
}

// clear forgets the stack and keeps its buffers.
func (t *memo) clear() {
	t.frames, t.path, t.cut = t.frames[:0], t.path[:0], false
}

// resize sets the depth and keeps the outermost kept frames. The others are to
// be written.
func (t *memo) resize(kept, depth int) {
	if depth > cap(t.frames) {
		t.frames = append(make([]Frame, 0, depth+depth/4), t.frames[:kept]...)
		t.path = append(make([]NodeID, 0, depth+depth/4), t.path[:kept]...)
	}
	t.frames, t.path = t.frames[:depth], t.path[:depth]
}

// memos remembers the last stack of the threads used most recently. Threads may
// come and go by the million: where there is no room for one more, it is given
// the memo unused for longest, buffers and all. So a sample of a new thread
// evicts one memo and allocates nothing, unless stacks are deep.
type memos struct {
	byThread map[uint64]*memo
	ends     memo    // of no thread: ends.newer is the oldest memo, ends.older the newest
	spare    []*memo // of no thread, in no list
	frames   int     // room for frames, summed over all
	most     struct{ threads, frames int }
	evicted  bool // a thread was forgotten that may be alive
}

func (ms *memos) init() {
	ms.byThread = make(map[uint64]*memo)
	ms.ends.newer, ms.ends.older = &ms.ends, &ms.ends
	ms.most.threads, ms.most.frames = maxMemos, maxMemoFrames
}

// bound lets the memos take a quarter of that many bytes, where this is less than
// the bounds that there are anyway.
func (ms *memos) bound(bytes int64) {
	const fewThreads, fewFrames = 16, 2 * maxSpareFrames // small enough for any budget
	ms.most.threads = int(min(maxMemos, max(bytes/16/perMemo, fewThreads)))
	ms.most.frames = int(min(maxMemoFrames, max(bytes/16*3/perMemoFrame, fewFrames)))
}

// of returns the memo of a thread, as the newest. It is empty for a thread that
// is new, and valid until the next call of a method of ms other than resize.
func (ms *memos) of(thread, goroutine uint64) *memo {
	t := ms.byThread[thread]
	known := t != nil
	if known {
		t.unlink()
	} else {
		t = ms.take()
		ms.byThread[thread] = t
	}
	t.link(ms.ends.older, &ms.ends)
	if !known || t.goroutine != goroutine { // the address may be another goroutine's now
		t.clear()
		t.thread, t.goroutine = thread, goroutine
	}
	return t
}

// take returns a memo of no thread: a spare one, the oldest, or a new one.
func (ms *memos) take() *memo {
	if len(ms.spare) == 0 && ms.full() {
		ms.evict()
	}
	if len(ms.spare) == 0 {
		return new(memo)
	}
	return ms.popSpare()
}

// full reports whether one more memo may break a bound.
func (ms *memos) full() bool {
	return len(ms.byThread) >= ms.most.threads || ms.frames > ms.most.frames-maxSpareFrames
}

// evict makes the oldest memo a spare one.
func (ms *memos) evict() {
	ms.release(ms.ends.newer)
	ms.evicted = true
}

// release takes a memo from its thread, and keeps it as a spare one if its
// buffers are worth handing on.
func (ms *memos) release(t *memo) {
	delete(ms.byThread, t.thread)
	t.unlink()
	if cap(t.frames) > maxSpareFrames {
		ms.frames -= cap(t.frames)
		return
	}
	ms.spare = append(ms.spare, t)
}

func (ms *memos) popSpare() *memo {
	last := len(ms.spare) - 1
	t := ms.spare[last]
	ms.spare[last] = nil
	ms.spare = ms.spare[:last]
	return t
}

// resize sets the depth of a memo.
func (ms *memos) resize(t *memo, kept, depth int) {
	ms.frames -= cap(t.frames)
	t.resize(kept, depth)
	ms.frames += cap(t.frames)
}

// trim drops spare memos, then the oldest, until the room for frames is within
// its bound. Each call of resize that adds room pays for what trim drops of it.
func (ms *memos) trim() {
	for ms.frames > ms.most.frames {
		if len(ms.spare) == 0 {
			ms.evict()
		} else {
			ms.frames -= cap(ms.popSpare().frames)
		}
	}
}

// link puts t, which is in no list, between two neighbours.
func (t *memo) link(older, newer *memo) {
	t.older, t.newer = older, newer
	older.newer, newer.older = t, t
}

func (t *memo) unlink() {
	t.older.newer, t.newer.older = t.newer, t.older
}

// bytes returns the memory held, the index by thread as its entries.
func (ms *memos) bytes() int64 {
	return int64(len(ms.byThread)+len(ms.spare))*perMemo + int64(ms.frames)*perMemoFrame
}

// What a memo takes, with its entry in the index and room for it among the spare
// ones, and what one of its frames does.
const (
	perMemo      = int64(unsafe.Sizeof(memo{})) + 5*int64(unsafe.Sizeof(uint64(0)))
	perMemoFrame = int64(unsafe.Sizeof(Frame{}) + unsafe.Sizeof(NodeID(0)))
)
