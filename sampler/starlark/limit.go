package starlark

import (
	"math"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// unlimited is the step limit of a thread that has none.
const unlimited = math.MaxUint64

// stepLimit returns the limit that the thread's SetMaxExecutionSteps has set. The
// interpreter has no way to ask for it. But it compares the limit with a counter
// that anybody may write, Steps, and calls OnMaxSteps at every step from the limit
// on: so the limit is the smallest count at which one step more calls it.
//
// guess is what the limit probably is. A right one costs two steps, a wrong one up
// to 64 (16 µs). The thread is left as it was, except that a thread that has
// never run now has a stack, as after any call. To be called between two steps.
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

// reachesLimit says whether the step that makes the count steps is at the limit or
// beyond it.
func reachesLimit(thread *starlark.Thread, steps uint64) (reached bool) {
	thread.Steps = steps - 1
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		reached = reached || thread.Steps == steps
	}
	// A thread that was cancelled fails here, having called OnMaxSteps.
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
