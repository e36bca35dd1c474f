package ccmap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// order returns the threads by use, the oldest first, and checks the links both
// ways and the index.
func (ms *memos) order(t interface{ Fatal(...any) }) []uint64 {
	var forward, backward []uint64
	for m := ms.ends.newer; m != &ms.ends && len(forward) <= len(ms.byThread); m = m.newer {
		forward = append(forward, m.thread)
		if ms.byThread[m.thread] != m {
			t.Fatal("thread", m.thread, "has another memo")
		}
	}
	for m := ms.ends.older; m != &ms.ends && len(backward) <= len(ms.byThread); m = m.older {
		backward = append(backward, m.thread)
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, backward) || len(forward) != len(ms.byThread) {
		t.Fatal("links disagree:", forward, backward)
	}
	return forward
}

// room returns the room for frames in all memos.
func (ms *memos) room() int {
	n := 0
	for _, m := range ms.byThread {
		n += cap(m.frames)
	}
	for _, m := range ms.spare {
		n += cap(m.frames)
	}
	return n
}

// TestMemosOrder compares the list with a slice of threads in order of use, and
// the memos with the depths that the threads were given. All but little of the
// room is taken, so that old threads are forgotten: those at the front, and only
// where room was short.
func TestMemosOrder(t *testing.T) {
	t.Parallel()
	const little = 4 * maxSpareFrames
	rapid.Check(t, func(t *rapid.T) {
		var ms memos
		ms.init()
		ms.frames = maxMemoFrames - little
		var used []uint64 // by use, oldest first
		depths := map[uint64]int{}
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			thread := rapid.Uint64Range(1, 12).Draw(t, "thread")
			if at := slices.Index(used, thread); at >= 0 {
				used = slices.Delete(used, at, at+1)
			}
			if rapid.IntRange(0, 3).Draw(t, "operation") == 0 {
				ms.forget(thread)
			} else {
				depths[thread] = rapid.IntRange(1, little/2).Draw(t, "depth")
				use(&ms, thread, depths[thread])
				used = append(used, thread)
			}
			got := ms.order(t)
			forgotten := len(used) - len(got)
			if forgotten < 0 || !slices.Equal(got, used[forgotten:]) || (forgotten > 0 && !ms.evicted) {
				t.Fatalf("order is %v, want the end of %v", got, used)
			}
			if n := ms.room(); n > little || n != ms.frames-(maxMemoFrames-little) {
				t.Fatalf("room for %d frames, counted as %d", n, ms.frames-(maxMemoFrames-little))
			}
			for _, thread := range got {
				if want := slices.Repeat([]NodeID{NodeID(thread)}, depths[thread]); !slices.Equal(ms.byThread[thread].path, want) {
					t.Fatalf("thread %d has path %v", thread, ms.byThread[thread].path)
				}
			}
			used = got
		}
	})
}

// use does with the memos what a fold does, and leaves the thread's mark on its
// path.
func use(ms *memos, thread uint64, depth int) {
	m := ms.of(thread, 0)
	kept := min(len(m.path), depth)
	ms.resize(m, kept, depth)
	for i := kept; i < depth; i++ {
		m.path[i] = NodeID(thread)
	}
	ms.trim()
}

// TestMemosForgetOnlyWhatTheyMust checks that threads are remembered up to the
// bounds.
func TestMemosForgetOnlyWhatTheyMust(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ depth, threads int }{
		{1, maxMemos},
		{200, (maxMemoFrames - maxSpareFrames) / 250}, // a quarter of the depth is reserve
		{1000, maxMemoFrames / 1250},
	} {
		var ms memos
		ms.init()
		for range 2 {
			for thread := range tc.threads {
				use(&ms, uint64(thread), tc.depth)
			}
		}
		if got := len(ms.byThread); got != tc.threads || ms.evicted {
			t.Errorf("%d threads of depth %d are remembered, want %d", got, tc.depth, tc.threads)
		}
	}
}

// TestMemosAllocate nothing for threads that take turns, though each is forgotten
// before it comes again.
func TestMemosAllocate(t *testing.T) {
	for _, threads := range []uint64{maxMemoFrames / 100, 2 * maxMemos} {
		var ms memos
		ms.init()
		turn := func() {
			for thread := range threads {
				use(&ms, thread, 100+int(thread%21))
			}
		}
		turn()
		if n := testing.AllocsPerRun(1, turn); n > float64(threads)/1000 {
			t.Errorf("%v allocations for %d threads that were forgotten", n, threads)
		}
	}
}

// TestMemosBound lets many more threads come than are remembered.
func TestMemosBound(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	a := m.names.Intern(Method{Name: "A"})
	frames := slices.Repeat([]Frame{{Method: a, Offset: 1}}, 40)
	for thread := range uint64(100_000) {
		m.Fold(&Sample{Thread: thread, Frames: frames})
	}
	if got := len(m.memos.byThread); got > maxMemos {
		t.Errorf("%d threads are remembered", got)
	}
	if m.memos.frames > maxMemoFrames {
		t.Errorf("room for %d frames is remembered", m.memos.frames)
	}
	if got := m.memos.bytes(); got > 16<<20 {
		t.Errorf("%d bytes are remembered", got)
	}
	if !m.memos.evicted {
		t.Error("nothing was evicted")
	}
	m.memos.order(t)
	m.Fold(&Sample{Thread: 99_999, Frames: frames[:2], Depth: 39})
	if m.meta.Loss.Orphaned != 0 {
		t.Error("the newest thread was forgotten")
	}
	m.Fold(&Sample{Thread: 0, Frames: frames[:2], Depth: 39})
	if m.meta.Loss.Orphaned != 1 {
		t.Error("the oldest thread was not forgotten")
	}
}

// TestMemosTrim gives threads stacks so deep that only few can be remembered.
func TestMemosTrim(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	a := m.names.Intern(Method{Name: "A"})
	frames := slices.Repeat([]Frame{{Method: a, Offset: 1}}, maxMemoFrames/4)
	for thread := range uint64(8) {
		m.Fold(&Sample{Thread: thread, Frames: frames})
		if m.memos.frames > maxMemoFrames {
			t.Fatalf("room for %d frames is remembered", m.memos.frames)
		}
	}
	// The first thread was forgotten: what it shows again may be old.
	seen := m.total.Activations
	m.Fold(&Sample{Thread: 0, Frames: frames, Fresh: FreshUnknown})
	if got := m.total.Activations - seen; got != 0 {
		t.Errorf("%d activations of a thread that was forgotten", got)
	}
	// One stack larger than the bound is folded, and not remembered.
	huge := slices.Repeat(frames, 5)
	m.Fold(&Sample{Thread: 9, Frames: huge})
	if m.memos.frames > maxMemoFrames {
		t.Errorf("room for %d frames is remembered", m.memos.frames)
	}
	if got, want := m.Len(), len(huge)+2+1; got != want {
		t.Errorf("%d nodes, want %d", got, want)
	}
	if err := m.CheckValid(); err != nil {
		t.Error(err)
	}
}

// TestLowerBoundAfterEviction checks that a thread that may have been forgotten
// does not have its activations counted again.
func TestLowerBoundAfterEviction(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	a := m.names.Intern(Method{Name: "A"})
	s := Sample{Thread: 1, Frames: slices.Repeat([]Frame{{Method: a, Offset: 1}}, 3), Fresh: FreshUnknown}
	m.Fold(&s)
	m.memos.evict()
	m.Fold(&s)
	if got := m.total.Activations; got != 3 {
		t.Errorf("%d activations, want 3", got)
	}
	m.memos.evict()
	s.Top = TopNew
	m.Fold(&s)
	if got := m.total.Activations; got != 4 {
		t.Errorf("%d activations, want 4", got)
	}
}
