package starlark

import (
	"github.com/ccmapd/ccmapd/sampler/managed"
	"go.starlark.net/starlark"
)

// stack is a thread's call stack with a mark for each activation. The interpreter's own
// frames have no room for marks.
//
// Calls nest: an activation lives until the stack becomes shallower. stack gets the depth
// at every step, so same, the least depth since the last walk, separates the activations
// of that walk from newer ones. There is one exception: Go code that calls a function,
// then another, takes no step between the two. See "Callbacks" in the package's
// documentation.
//
// It belongs to the goroutine that runs the thread.
type stack struct {
	thread  *starlark.Thread
	methods methods
	exact   bool // at is called at every step; otherwise there are no marks

	walked []activation // by the last walk, outermost first; keeps its functions alive until the next
	same   int          // number of walked ones that may still be on the stack
	doubt  bool         // steps were missed since the last walk

	// About the innermost of same, while a step at its depth may belong to another one:
	callback bool // Go code called it
	witness  int  // index of an assigned local variable, or negative
}

// activation is a call in a walk.
type activation struct {
	callable starlark.Callable // nil: the walk did not get there
	mark     managed.Mark
}

// at notes a step at this depth, 1 or more. It inlines to one comparison, because it is
// called before every instruction.
func (s *stack) at(depth int) {
	if depth <= s.same {
		s.shallow(depth)
	}
}

// shallow notes a step at the depth of a walked activation.
func (s *stack) shallow(depth int) {
	if depth < s.same {
		s.same = depth
		s.watch()
	}
	if s.callback && s.replaced() {
		s.same = depth - 1
	}
}

// watch prepares to notice that Go code calls another function in place of the innermost
// one, which is executing a step.
func (s *stack) watch() {
	s.callback, s.witness = s.calledByGo(), -1
	if s.callback {
		s.witness = assignedLocal(s.thread.DebugFrame(0))
	}
}

// calledByGo reports whether Go code called the innermost activation: a builtin or, if it
// has no caller, the host.
func (s *stack) calledByGo() bool {
	if s.thread.CallStackDepth() < 2 {
		return true
	}
	_, isFunction := s.thread.DebugFrame(1).Callable().(*starlark.Function)
	return !isFunction
}

// assignedLocal returns the index of an assigned local variable of the frame other than a
// parameter, or -1. Variables that closures capture do not count: they live in cells,
// which exist from the beginning.
func assignedLocal(frame starlark.DebugFrame) int {
	function, ok := frame.Callable().(*starlark.Function)
	if !ok {
		return -1
	}
	for i := function.NumParams(); i < frame.NumLocals(); i++ {
		if _, value := frame.Local(i); value != nil && value.Type() != "cell" {
			return i
		}
	}
	return -1
}

// replaced reports whether the innermost activation is certainly not the walked one: it
// has another function, or the assigned variable is unassigned. No instruction undoes an
// assignment to a local variable.
func (s *stack) replaced() bool {
	frame := s.thread.DebugFrame(0)
	if !identical(frame.Callable(), s.walked[s.same-1].callable) {
		return true
	}
	if s.witness < 0 || s.witness >= frame.NumLocals() {
		return false
	}
	_, value := frame.Local(s.witness)
	return value == nil
}

// identical reports whether two callables are the same value, as far as possible. Go may
// not be able to compare the host's own types, so only type and name tell those apart.
// Nil is identical to nothing.
func identical(a, b starlark.Callable) bool {
	if a == nil || b == nil {
		return false
	}
	switch a := a.(type) {
	case *starlark.Function:
		b, ok := b.(*starlark.Function)
		return ok && a == b
	case *starlark.Builtin:
		b, ok := b.(*starlark.Builtin)
		return ok && a == b
	}
	return a.Type() == b.Type() && a.Name() == b.Name()
}

// lost notes that at has missed steps.
func (s *stack) lost(depth int) {
	s.same = min(s.same, depth)
	s.callback = false
	s.doubt = true
}

// local is the key of a thread's walked activations, from Detach to Attach.
const local = "github.com/ccmapd/ccmapd/sampler/starlark"

// keep leaves the marks with the thread, if activations may still have one when the
// thread is attached again.
func (s *stack) keep() {
	switch depth := s.thread.CallStackDepth(); {
	case s.exact && depth > 0:
		s.thread.SetLocal(local, s.walked[:min(s.same, depth)])
	case s.thread.Local(local) != nil:
		s.thread.SetLocal(local, nil)
	}
}

// recall takes the marks that an earlier attachment has left.
func (s *stack) recall() {
	if walked, ok := s.thread.Local(local).([]activation); ok && s.exact {
		s.walked, s.same = walked, len(walked)
		s.lost(s.thread.CallStackDepth())
	}
}

// Walk implements managed.Walker.
func (s *stack) Walk(visit func(managed.Frame) bool) {
	depth := s.thread.CallStackDepth()
	if s.exact {
		s.settle(depth)
	}
	s.frames(0, func(i int, f managed.Frame, c starlark.Callable) bool {
		if s.exact {
			a := &s.walked[depth-1-i]
			a.callable, f.Mark = c, &a.mark
		}
		return visit(f)
	})
}

// frames calls visit with every frame from the i-th on, counted from the innermost, until
// it returns false. The frames have no mark.
func (s *stack) frames(i int, visit func(int, managed.Frame, starlark.Callable) bool) {
	for depth := s.thread.CallStackDepth(); i < depth; i++ {
		frame := s.thread.DebugFrame(i)
		callable := frame.Callable()
		if !visit(i, s.frame(frame, callable), callable) {
			return
		}
	}
}

// frame describes a frame. Its position is the function's last step: a safe point comes
// before the next step, so the time since the last safe point was spent there.
func (s *stack) frame(f starlark.DebugFrame, c starlark.Callable) managed.Frame {
	return managed.Frame{Method: s.methods.of(c), Offset: offset(c, f.Position())}
}

// settle clears the marks of activations that have ended since the last walk, and makes
// room for the stack's marks.
func (s *stack) settle(depth int) {
	s.same = s.unchanged(min(s.same, depth))
	clear(s.walked[s.same:])
	for len(s.walked) < depth {
		s.walked = append(s.walked, activation{})
	}
	s.walked = s.walked[:depth]
	s.same = depth
	s.watch()
}

// unchanged returns the number of outermost activations, at most most, that are the same
// as in the last walk or cannot be told from it.
//
// A function that waits for a call has executed a step, so it has not changed since it
// was last seen deeper than same. Only the activations above the innermost such function
// have to be compared.
func (s *stack) unchanged(most int) int {
	known := 0
	if !s.doubt {
		known = s.waiting(most)
	}
	s.doubt = false
	for k := known; k < most; k++ {
		if !identical(s.callable(k), s.walked[k].callable) {
			return k
		}
	}
	return most
}

// waiting returns the depth of the innermost function less deep than most, or 0.
func (s *stack) waiting(most int) int {
	for k := most - 1; k > 0; k-- {
		if _, ok := s.callable(k - 1).(*starlark.Function); ok {
			return k
		}
	}
	return 0
}

// callable returns the k-th activation's callable. The outermost is 0.
func (s *stack) callable(k int) starlark.Callable {
	return s.thread.DebugFrame(s.thread.CallStackDepth() - 1 - k).Callable()
}

// callers walks the stack from a caller outwards, for a caught call.
type callers struct {
	stack *stack
	first int // counted from the innermost frame
}

// Walk implements managed.Walker.
func (c *callers) Walk(visit func(managed.Frame) bool) {
	c.stack.frames(c.first, func(_ int, f managed.Frame, _ starlark.Callable) bool { return visit(f) })
}

// catch reports the calls that made the began innermost activations, since the last step:
// the call of the function that will execute its first step now, and the calls of the
// builtins through which it was called. Starlark has no types, so every call site may
// have several targets, and the callable is exact.
//
// A call by the host has no call site and is not reported.
func (t *Thread) catch(began int) {
	callers := t.thread.CallStackDepth() - 1
	for i := min(began, callers) - 1; i >= 0; i-- {
		t.callers.first = i + 1
		t.managed.Called(t.stack.methods.of(t.thread.DebugFrame(i).Callable()), &t.callers)
	}
}
