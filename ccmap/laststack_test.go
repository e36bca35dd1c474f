package ccmap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// order returns the threads by use, the oldest first, and checks the links both
// ways and the index.
func (ls *lastStacks) order(t interface{ Fatal(...any) }) []uint64 {
	var forward, backward []uint64
	for m := ls.ends.newer; m != &ls.ends && len(forward) <= len(ls.byThread); m = m.newer {
		forward = append(forward, m.thread)
		if ls.byThread[m.thread] != m {
			t.Fatal("thread", m.thread, "has another lastStack")
		}
	}
	for m := ls.ends.older; m != &ls.ends && len(backward) <= len(ls.byThread); m = m.older {
		backward = append(backward, m.thread)
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, backward) || len(forward) != len(ls.byThread) {
		t.Fatal("links disagree:", forward, backward)
	}
	return forward
}

// room returns the room for frames in all last stacks.
func (ls *lastStacks) room() int {
	n := 0
	for _, m := range ls.byThread {
		n += len(m.buffer)
	}
	for _, m := range ls.spare {
		n += len(m.buffer)
	}
	return n
}

// TestLastStacksOrder compares the list with a slice of threads in order of use, and
// the last stacks with the depths that the threads were given. All but little of the
// room is taken, so that old threads are forgotten: those at the front, and only
// where room was short.
func TestLastStacksOrder(t *testing.T) {
	t.Parallel()
	const little = 4 * maxSpareFrames
	rapid.Check(t, func(t *rapid.T) {
		var ls lastStacks
		ls.init()
		ls.frames = maxLastFrames - little
		var used []uint64 // by use, oldest first
		depths := map[uint64]int{}
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			thread := rapid.Uint64Range(1, 12).Draw(t, "thread")
			if at := slices.Index(used, thread); at >= 0 {
				used = slices.Delete(used, at, at+1)
			}
			if rapid.IntRange(0, 3).Draw(t, "operation") == 0 {
				ls.forget(thread)
			} else {
				depths[thread] = rapid.IntRange(1, little/2).Draw(t, "depth")
				use(&ls, thread, depths[thread])
				used = append(used, thread)
			}
			got := ls.order(t)
			forgotten := len(used) - len(got)
			if forgotten < 0 || !slices.Equal(got, used[forgotten:]) || (forgotten > 0 && !ls.forgot) {
				t.Fatalf("order is %v, want the end of %v", got, used)
			}
			if n := ls.room(); n > little || n != ls.frames-(maxLastFrames-little) {
				t.Fatalf("room for %d frames, counted as %d", n, ls.frames-(maxLastFrames-little))
			}
			for _, thread := range got {
				if want := slices.Repeat([]Frame{{Offset: uint32(thread)}}, depths[thread]); !slices.Equal(ls.byThread[thread].frames, want) {
					t.Fatalf("thread %d has frames %v", thread, ls.byThread[thread].frames)
				}
			}
			used = got
		}
	})
}

// use handles the last stacks like a fold, and leaves the thread's mark on its frames.
func use(ls *lastStacks, thread uint64, depth int) {
	m := ls.of(thread, 0)
	kept := min(len(m.frames), depth)
	ls.resize(m, kept, depth)
	for i := range depth - kept {
		m.frames[i] = Frame{Offset: uint32(thread)}
	}
	ls.trim()
}

// TestLastStacksForgetLittle checks that threads are remembered up to the
// bounds.
func TestLastStacksForgetLittle(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ depth, threads int }{
		{1, maxLastStacks},
		{200, (maxLastFrames - maxSpareFrames) / 250}, // a quarter of the depth is reserve
		{1000, maxLastFrames / 1250},
	} {
		var ls lastStacks
		ls.init()
		for range 2 {
			for thread := range tc.threads {
				use(&ls, uint64(thread), tc.depth)
			}
		}
		if got := len(ls.byThread); got != tc.threads || ls.forgot {
			t.Errorf("%d threads of depth %d are remembered, want %d", got, tc.depth, tc.threads)
		}
	}
}

// TestLastStacksAllocate checks that nothing is allocated for threads that take turns, though each is forgotten
// before it comes again.
func TestLastStacksAllocate(t *testing.T) {
	for _, threads := range []uint64{maxLastFrames / 100, 2 * maxLastStacks} {
		var ls lastStacks
		ls.init()
		turn := func() {
			for thread := range threads {
				use(&ls, thread, 100+int(thread%21))
			}
		}
		turn()
		if n := testing.AllocsPerRun(1, turn); n > float64(threads)/1000 {
			t.Errorf("%v allocations for %d threads that were forgotten", n, threads)
		}
	}
}

// TestLastStacksBound lets many more threads come than are remembered.
func TestLastStacksBound(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	a := m.names.Intern(Method{Name: "A"})
	frames := slices.Repeat([]Frame{{Method: a, Offset: 1}}, 40)
	for thread := range uint64(100_000) {
		m.Fold(&Sample{Thread: thread, Frames: frames})
	}
	if got := len(m.last.byThread); got > maxLastStacks {
		t.Errorf("%d threads are remembered", got)
	}
	if m.last.frames > maxLastFrames {
		t.Errorf("room for %d frames is remembered", m.last.frames)
	}
	if got := m.last.bytes(); got > 16<<20 {
		t.Errorf("%d bytes are remembered", got)
	}
	if !m.last.forgot {
		t.Error("nothing was forgotten")
	}
	m.last.order(t)
	m.Fold(&Sample{Thread: 99_999, Frames: frames[:2], Depth: 39})
	if m.meta.Loss.Orphaned != 0 {
		t.Error("the newest thread was forgotten")
	}
	m.Fold(&Sample{Thread: 0, Frames: frames[:2], Depth: 39})
	if m.meta.Loss.Orphaned != 1 {
		t.Error("the oldest thread was not forgotten")
	}
}

// TestLastStacksTrim gives threads stacks so deep that only few can be remembered.
func TestLastStacksTrim(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	a := m.names.Intern(Method{Name: "A"})
	frames := slices.Repeat([]Frame{{Method: a, Offset: 1}}, maxLastFrames/4)
	for thread := range uint64(8) {
		m.Fold(&Sample{Thread: thread, Frames: frames})
		if m.last.frames > maxLastFrames {
			t.Fatalf("room for %d frames is remembered", m.last.frames)
		}
	}
	// The first thread was forgotten: its next stack may be old.
	seen := m.total.Activations
	m.Fold(&Sample{Thread: 0, Frames: frames, Fresh: FreshUnknown})
	if got := m.total.Activations - seen; got != 0 {
		t.Errorf("%d activations of a thread that was forgotten", got)
	}
	// One stack larger than the bound is folded, and not remembered.
	huge := slices.Repeat(frames, 5)
	m.Fold(&Sample{Thread: 9, Frames: huge})
	if m.last.frames > maxLastFrames {
		t.Errorf("room for %d frames is remembered", m.last.frames)
	}
	if got, want := m.Len(), len(huge)+2+1; got != want {
		t.Errorf("%d nodes, want %d", got, want)
	}
	if err := m.CheckValid(); err != nil {
		t.Error(err)
	}
}

// TestForgetThreads: a partial sample of the next process is not completed from a stack of
// the last one. All frames of its threads are new.
func TestForgetThreads(t *testing.T) {
	t.Parallel()
	m := New(Options{MaxBytes: 1 << 20})
	a := m.names.Intern(Method{Name: "A"})
	s := Sample{Thread: 1, Frames: slices.Repeat([]Frame{{Method: a, Offset: 1}}, 300), Fresh: FreshUnknown}
	m.Fold(&s)
	most := m.last.most
	m.ForgetThreads()
	if m.last.bytes() != 0 || m.last.most != most {
		t.Errorf("%d bytes are remembered, at most %v; want 0, %v", m.last.bytes(), m.last.most, most)
	}
	m.Fold(&s)
	if got := m.total.Activations; got != 600 {
		t.Errorf("%d activations, want 600", got)
	}
	m.ForgetThreads()
	m.Fold(&Sample{Thread: 1, Frames: s.Frames[:2], Depth: 299})
	if m.meta.Loss.Orphaned != 1 {
		t.Error("a sample was completed from a forgotten stack")
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
	m.last.forgetOldest()
	m.Fold(&s)
	if got := m.total.Activations; got != 3 {
		t.Errorf("%d activations, want 3", got)
	}
	m.last.forgetOldest()
	s.Top = TopNew
	m.Fold(&s)
	if got := m.total.Activations; got != 4 {
		t.Errorf("%d activations, want 4", got)
	}
}
