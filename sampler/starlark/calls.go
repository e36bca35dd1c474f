package starlark

import (
	"go.starlark.net/starlark"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

// callers walks the stack from a caller outwards, for a call that was caught.
type callers struct {
	stack *stack
	first int // counted from the innermost frame
}

// Walk is managed.Walker's.
func (c *callers) Walk(visit func(managed.Frame) bool) {
	c.stack.frames(c.first, func(_ int, f managed.Frame, _ starlark.Callable) bool { return visit(f) })
}

// catch reports the calls that made the innermost activations, so many of them, since
// the last step: that of the function which is about to execute its first one,
// and those of the builtins through which it was called. Starlark has no types, so
// every call site may have several targets, and the callable is the exact one.
//
// What the host calls has no call site and is not reported.
func (t *Thread) catch(began int) {
	callers := t.thread.CallStackDepth() - 1
	for i := min(began, callers) - 1; i >= 0; i-- {
		t.callers.first = i + 1
		t.managed.Called(t.stack.methods.of(t.thread.DebugFrame(i).Callable()), &t.callers)
	}
}
