package starlark

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/ccmapd/ccmapd/sampler/managed"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Options of one thread's profiling. The zero value is cheap: the thread runs nearly at
// full speed.
type Options struct {
	// Exact makes every step a safe point. So samples show which activations earlier
	// samples have seen, and calls are caught. The thread may take nearly twice its time:
	// see "Cost and exactness" in the package's documentation.
	Exact bool
}

// meanGap is the average number of steps between two safe points, unless each step is
// one.
const meanGap = 100

// Thread is a Starlark thread that samples itself while it runs.
//
// Layout and ownership: all fields and methods belong to the goroutine that runs the
// Starlark thread, as the Starlark thread itself does.
type Thread struct {
	thread  *starlark.Thread
	managed *managed.Thread
	stack   stack
	callers callers
	depth   int // of the call stack at the last step

	// The interpreter calls OnMaxSteps at every step from the step limit on. That is the
	// safe point. So the thread's limit and callback are the profiler's, and the
	// embedder's own are here.
	limit      uint64
	onMaxSteps func(*starlark.Thread)

	armed    uint64 // the limit in force
	next     uint64 // the step of the next safe point, unless limit or count change
	detached bool
}

// Attach makes the thread sample itself for the profiler until Detach. The thread keeps
// its step limit and OnMaxSteps, which work as before. OnMaxSteps may change them when
// the limit is reached.
//
// At other times, change them before Attach or after Detach. Another OnMaxSteps would
// replace the profiler, and be called at every safe point. A limit more than 200 steps
// ahead holds, but there are no samples before it. A nearer limit, or one in the past,
// may not be noticed: [starlark.Thread.Cancel] ends a run at once. If Steps is set back,
// there may be no samples before the count is where it was.
//
// The goroutine that runs the thread calls Attach, before a call or during one, from a
// builtin. A thread is attached to one profiler at a time.
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
// waits: until Unpark, its time does not count. It publishes its samples.
func (t *Thread) Park() { t.managed.Park() }

// Blocked is Park for a wait that the profiler's Waits are to know, with the reason: see [managed.Thread.Blocked].
func (t *Thread) Blocked(reason string) { t.managed.Blocked(reason, &t.stack) }

// Unpark ends Park or Blocked. Call it before the thread executes anything again.
func (t *Thread) Unpark() { t.managed.Unpark() }

// arm makes the interpreter call step at the next safe point.
func (t *Thread) arm() {
	t.thread.OnMaxSteps = t.step
	t.armed = 0
	t.thread.SetMaxExecutionSteps(t.armed)
	t.schedule()
}

// schedule sets the limit to the next safe point. Every step has reached the limit 0,
// with any count, so that limit needs no change.
//
// The gaps are random: fixed gaps would sample a loop of as many steps, or of a part of
// them, at the same places in each round.
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

// disarm restores the embedder's limit and OnMaxSteps.
func (t *Thread) disarm() {
	t.thread.SetMaxExecutionSteps(t.limit)
	t.thread.OnMaxSteps = t.onMaxSteps
}

// The interpreter calls step before it executes an instruction.
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

// follow updates the stack for a step at this depth. If calls are wanted, it reports the
// calls before the step.
func (t *Thread) follow(depth int) {
	t.stack.at(depth)
	if depth > t.depth && t.managed.CallsWanted() {
		t.catch(depth - t.depth)
	}
	t.depth = depth
}

// resume goes on after an unexpected count. Either the embedder has changed the count, or
// it has set another limit, which is reached now: then the profiler has missed steps.
func (t *Thread) resume() {
	if limit := stepLimit(t.thread, t.armed); limit != t.armed {
		t.limit = limit
		t.depth = t.thread.CallStackDepth()
		t.stack.lost(t.depth)
	}
	t.arm()
}

// atLimit acts as the interpreter does at the embedder's limit. OnMaxSteps may set
// another limit, replace itself, detach, or panic.
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

// unlimited is the step limit of a thread without one.
const unlimited = math.MaxUint64

// stepLimit returns the limit that the thread's SetMaxExecutionSteps has set. The
// interpreter does not export it. But it compares the limit with an exported counter,
// Steps, and calls OnMaxSteps at every step from the limit on. So the limit is the
// smallest count at which one more step calls it.
//
// guess is the probable limit. A right guess costs two steps, a wrong one up to 64 (16
// µs). The thread is unchanged afterwards, except that a thread that has never run now
// has a stack, as after any call. Call it between two steps.
func stepLimit(thread *starlark.Thread, guess uint64) uint64 {
	steps, onMaxSteps := thread.Steps, thread.OnMaxSteps
	defer func() { thread.Steps, thread.OnMaxSteps = steps, onMaxSteps }()

	if reachesLimit(thread, guess) && (guess == 0 || !reachesLimit(thread, guess-1)) {
		return guess
	}
	low, high := uint64(0), uint64(unlimited)
	for low < high {
		middle := low + (high-low)/2
		if reachesLimit(thread, middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// reachesLimit reports whether the step with the count steps is at the limit or beyond
// it.
func reachesLimit(thread *starlark.Thread, steps uint64) (reached bool) {
	thread.Steps = steps - 1
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		reached = reached || thread.Steps == steps
	}
	// A cancelled thread fails here, after calling OnMaxSteps.
	_, _ = starlark.Call(thread, someSteps(), nil, nil)
	return reached
}

// someSteps is a function that does nothing, in two steps.
var someSteps = sync.OnceValue(func() starlark.Value {
	const source = "def some_steps(): pass"
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, new(starlark.Thread), "ccmapd", source, nil)
	if err != nil {
		panic(err) // the source is a constant
	}
	globals.Freeze()
	return globals["some_steps"]
})
