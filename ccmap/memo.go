package ccmap

import "unsafe"

// Bounds of what is remembered of threads. A thread that was forgotten loses
// nothing but speed, unless its source walks partially: then its next partial
// sample is orphaned.
const (
	maxMemos      = 1 << 14
	maxMemoFrames = 1 << 20 // in all memos; 12 MB
)

// memo is the last stack of one thread, outermost frame first.
type memo struct {
	thread    uint64
	goroutine uint64
	frames    []Frame
	path      []NodeID // of the frames, same length
	cut       bool     // frames[0] is the pseudo frame of a truncated stack

	newer, older int32 // links of the list of all memos in order of use
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
// come and go by the million: the memo unused for longest is given to a new
// thread, buffers and all.
type memos struct {
	byThread map[uint64]int32 // index in all
	all      []memo           // all[0] belongs to no thread: it is the ends of the list
	frames   int              // room for frames, summed over all
	evicted  bool             // a thread was forgotten that may be alive
}

func (ms *memos) init() {
	ms.byThread = make(map[uint64]int32)
	ms.all = make([]memo, 1)
}

// of returns the memo of a thread, as the newest. It is empty for a thread that
// is new, and valid until the next call of a method of ms.
func (ms *memos) of(thread, goroutine uint64) *memo {
	i, ok := ms.byThread[thread]
	if ok {
		ms.unlink(i)
	} else {
		i = ms.take()
		ms.byThread[thread] = i
	}
	ms.link(i, ms.all[0].older, 0)
	t := &ms.all[i]
	if !ok || t.goroutine != goroutine { // the address may be another goroutine's now
		t.clear()
		t.thread, t.goroutine = thread, goroutine
	}
	return t
}

// take returns an unlinked memo: a spare one, a new one, or the oldest.
func (ms *memos) take() int32 {
	if spare := len(ms.all) - 1 - len(ms.byThread); spare == 0 && len(ms.all) <= maxMemos {
		ms.all = append(ms.all, memo{})
		return int32(len(ms.all) - 1)
	} else if spare == 0 {
		ms.evict()
	}
	oldest := ms.all[0].newer
	ms.unlink(oldest)
	return oldest
}

// forget makes the memo of a thread that has ended a spare one.
func (ms *memos) forget(thread uint64) {
	i, ok := ms.byThread[thread]
	if !ok {
		return
	}
	delete(ms.byThread, thread)
	ms.unlink(i)
	ms.link(i, 0, ms.all[0].newer) // spare ones are older than all others
}

// resize sets the depth of a memo and makes older ones pay for its growth.
func (ms *memos) resize(t *memo, kept, depth int) {
	ms.frames -= cap(t.frames)
	t.resize(kept, depth)
	ms.frames += cap(t.frames)
}

// trim frees the oldest buffers until the room for frames is within its bound.
func (ms *memos) trim() {
	for i := ms.all[0].newer; i != 0 && ms.frames > maxMemoFrames; i = ms.all[i].newer {
		t := &ms.all[i]
		if t.frames == nil {
			continue
		}
		ms.frames -= cap(t.frames)
		ms.evicted = true
		t.frames, t.path, t.cut = nil, nil, false
	}
}

// evict makes the oldest memo a spare one.
func (ms *memos) evict() {
	ms.forget(ms.all[ms.all[0].newer].thread)
	ms.evicted = true
}

// link puts memo i, which is in no list, between two neighbours.
func (ms *memos) link(i, older, newer int32) {
	ms.all[i].older, ms.all[i].newer = older, newer
	ms.all[older].newer = i
	ms.all[newer].older = i
}

func (ms *memos) unlink(i int32) {
	t := &ms.all[i]
	ms.all[t.older].newer = t.newer
	ms.all[t.newer].older = t.older
}

// bytes returns the memory held, the index by thread as its entries.
func (ms *memos) bytes() int64 {
	const indexEntry = 2 * int64(unsafe.Sizeof(uint64(0))+unsafe.Sizeof(int32(0)))
	return int64(cap(ms.all))*int64(unsafe.Sizeof(memo{})) +
		int64(ms.frames)*int64(unsafe.Sizeof(Frame{})+unsafe.Sizeof(NodeID(0))) +
		int64(len(ms.byThread))*indexEntry
}
