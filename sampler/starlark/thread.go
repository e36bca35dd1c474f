package starlark

import (
	"math/rand/v2"

	"go.starlark.net/starlark"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

// Options of one thread's profiling. The zero value is cheap: the thread runs nearly
// at its full speed.
type Options struct {
	// Exact makes every step a safe point, so that it is known which activations
	// have been sampled before, and calls are caught. The thread may take nearly
	// twice its time: see "Cost and exactness" in the package's documentation.
	Exact bool
}

// meanGap is the number of steps between two safe points, on average, unless each
// one is.
const meanGap = 100

// Thread is a Starlark thread that samples itself while it runs.
//
// Layout and ownership: everything belongs to the goroutine that runs the Starlark
// thread, as the Starlark thread itself does; so do the methods.
type Thread struct {
	thread  *starlark.Thread
	managed *managed.Thread
	stack   stack
	callers callers
	depth   int // of the call stack at the last step

	// The interpreter calls OnMaxSteps at every step from the step limit on. That is
	// the safe point, so limit and callback are those of the profiler, and these the
	// embedder's own.
	limit      uint64
	onMaxSteps func(*starlark.Thread)

	armed    uint64 // the limit that is set
	next     uint64 // the step of the next safe point, unless limit or count are changed
	detached bool
}

// Attach makes the thread sample itself for the profiler until Detach. The thread
// keeps its step limit and OnMaxSteps, which work as before, and may be changed by
// OnMaxSteps when the limit is reached.
//
// At other times they are to be changed before Attach or after Detach. OnMaxSteps
// would take the profiler's place, and be called at every safe point. A limit more
// than 200 steps ahead holds, but there are no samples before it is reached; a nearer
// one, or one that has been passed, may not be noticed: [starlark.Thread.Cancel]
// ends a run at once. If Steps is set back, there may be no samples before the
// count is where it was.
//
// It is called by the goroutine that runs the thread, before a call or during one,
// from a builtin. A thread is attached to one profiler at a time.
func Attach(p *managed.Profiler, thread *starlark.Thread, o Options) *Thread {
	t := &Thread{
		thread:     thread,
		managed:    p.Attach(managed.ThreadOptions{}),
		stack:      stack{thread: thread, methods: newMethods(p.Sink().Names), exact: o.Exact},
		depth:      thread.CallStackDepth(),
		limit:      stepLimit(thread, unlimited),
		onMaxSteps: thread.OnMaxSteps,
	}
	t.callers.stack = &t.stack
	t.stack.recall()
	t.arm()
	return t
}

// Detach ends the profiling of the thread and publishes its samples. Step limit and
// OnMaxSteps are the embedder's again. It may be called more than once.
func (t *Thread) Detach() {
	if t.detached {
		return
	}
	t.detached = true
	t.disarm()
	t.stack.keep()
	t.managed.Detach()
}

// Park says that the thread does nothing for a while, because its host or a builtin
// waits: until Unpark, no time is counted as its own. It publishes its samples.
func (t *Thread) Park() { t.managed.Park() }

// Unpark ends Park. It is called before the thread executes anything again.
func (t *Thread) Unpark() { t.managed.Unpark() }

// arm makes step what the interpreter calls at the next safe point.
func (t *Thread) arm() {
	t.thread.OnMaxSteps = t.step
	t.armed = 0
	t.thread.SetMaxExecutionSteps(t.armed)
	t.schedule()
}

// schedule sets the limit to the next safe point. The limit 0 is one that every step
// has reached, whatever becomes of the count, and needs no change.
//
// The gaps are random, since a loop of so many steps as a fixed one, or of a part of
// them, would be sampled at the same places each time round.
func (t *Thread) schedule() {
	steps := t.thread.Steps
	t.next = steps + 1
	if !t.stack.exact {
		t.next += rand.Uint64N(2*meanGap - 1)
		t.next = min(t.next, max(t.limit, steps+1))
		t.armed = t.next
		t.thread.SetMaxExecutionSteps(t.armed)
	}
}

// disarm gives the thread what the embedder set.
func (t *Thread) disarm() {
	t.thread.SetMaxExecutionSteps(t.limit)
	t.thread.OnMaxSteps = t.onMaxSteps
}

// step is called by the interpreter before it executes an instruction.
func (t *Thread) step(thread *starlark.Thread) {
	if thread.Steps != t.next {
		t.resume()
	}
	if thread.Steps >= t.limit {
		t.atLimit()
		if t.detached {
			return
		}
	}
	if t.stack.exact {
		t.follow(thread.CallStackDepth())
	}
	t.managed.Safepoint(&t.stack)
	t.schedule()
}

// follow keeps the stack up to date with a step at this depth, and reports the
// calls that led to it, if calls are wanted.
func (t *Thread) follow(depth int) {
	t.stack.at(depth)
	if depth > t.depth && t.managed.CallsWanted() {
		t.catch(depth - t.depth)
	}
	t.depth = depth
}

// resume goes on where the count is not as expected. Either the embedder has changed
// it, or it has set another limit, which is reached now: then there were steps of
// which the profiler knows nothing.
func (t *Thread) resume() {
	if limit := stepLimit(t.thread, t.armed); limit != t.armed {
		t.limit = limit
		t.depth = t.thread.CallStackDepth()
		t.stack.lost(t.depth)
	}
	t.arm()
}

// atLimit does what the interpreter does at the embedder's limit. OnMaxSteps may
// set another limit, replace itself, detach, or panic.
func (t *Thread) atLimit() {
	t.disarm()
	defer func() {
		if !t.detached {
			t.limit = stepLimit(t.thread, t.limit)
			t.onMaxSteps = t.thread.OnMaxSteps
			t.arm()
		}
	}()
	if t.onMaxSteps == nil {
		t.thread.Cancel("too many steps")
		return
	}
	t.onMaxSteps(t.thread)
}
