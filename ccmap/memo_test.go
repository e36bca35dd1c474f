package ccmap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// order returns the threads by use, the oldest first, and checks the links both
// ways. Spare memos come first, as thread 0.
func (ms *memos) order(t interface{ Fatal(...any) }) []uint64 {
	var forward, backward []int32
	for i := ms.all[0].newer; i != 0 && len(forward) < len(ms.all); i = ms.all[i].newer {
		forward = append(forward, i)
	}
	for i := ms.all[0].older; i != 0 && len(backward) < len(ms.all); i = ms.all[i].older {
		backward = append(backward, i)
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, backward) || len(forward) != len(ms.all)-1 {
		t.Fatal("links disagree:", forward, backward)
	}
	var threads []uint64
	for _, i := range forward {
		thread := ms.all[i].thread
		if at, ok := ms.byThread[thread]; !ok || at != i {
			thread = 0
		}
		threads = append(threads, thread)
	}
	return threads
}

// TestMemosOrder compares the list with a slice of threads in order of use.
func TestMemosOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var ms memos
		ms.init()
		var used []uint64
		spare := 0
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			thread := rapid.Uint64Range(1, 6).Draw(t, "thread")
			at := slices.Index(used, thread)
			if at >= 0 {
				used = slices.Delete(used, at, at+1)
			}
			if rapid.IntRange(0, 3).Draw(t, "operation") == 0 {
				ms.forget(thread)
				if at >= 0 {
					spare++
				}
				continue
			}
			ms.of(thread, 0)
			used = append(used, thread)
			if at < 0 && spare > 0 {
				spare--
			}
			if got := ms.order(t); !slices.Equal(got, append(make([]uint64, spare), used...)) {
				t.Fatalf("order is %v, want %d spare and %v", got, spare, used)
			}
		}
	})
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
	if m.memos.frames > maxMemoFrames+len(frames)*2 {
		t.Errorf("room for %d frames is remembered", m.memos.frames)
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
