package starlark

import (
	"go.starlark.net/starlark"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

// stack is a thread's call stack with a mark for each activation, which the
// interpreter's own frames have no room for.
//
// Calls nest: an activation lives for as long as the stack has not been shallower
// than it. stack is told the depth at every step, so same, the least of them since
// the last walk, separates the activations that were there at the walk from those
// that began since, with one exception: Go code that calls a function, then
// another, takes no step between the two. "Callbacks" in the package's
// documentation tells what is done about it.
//
// It belongs to the goroutine that runs the thread.
type stack struct {
	thread  *starlark.Thread
	methods methods
	exact   bool // at is called at every step; otherwise there are no marks

	walked []activation // as of the last walk, outermost first; keeps its functions alive until the next
	same   int          // how many of walked may still be on the stack
	doubt  bool         // steps were missed since the last walk

	// Of the innermost of same, while a step at its depth may be another activation's:
	callback bool // Go code called it
	witness  int  // index of a local variable that was assigned; negative: none
}

// activation is one call as a walk saw it.
type activation struct {
	callable starlark.Callable // nil: the walk did not get there
	mark     managed.Mark
}

// at notes that a step is executed at this depth, 1 or more. It inlines to one
// comparison, since it is called before every instruction.
func (s *stack) at(depth int) {
	if depth <= s.same {
		s.shallow(depth)
	}
}

// shallow notes a step at the depth of an activation that was walked.
func (s *stack) shallow(depth int) {
	if depth < s.same {
		s.same = depth
		s.watch()
	}
	if s.callback && s.replaced() {
		s.same = depth - 1
	}
}

// watch prepares to notice that Go code calls another function in the place of the
// innermost one, which is executing a step.
func (s *stack) watch() {
	s.callback, s.witness = s.calledByGo(), -1
	if s.callback {
		s.witness = assignedLocal(s.thread.DebugFrame(0))
	}
}

// calledByGo says whether the innermost activation was called by Go code: by a
// builtin or, having no caller, by the host.
func (s *stack) calledByGo() bool {
	if s.thread.CallStackDepth() < 2 {
		return true
	}
	_, isFunction := s.thread.DebugFrame(1).Callable().(*starlark.Function)
	return !isFunction
}

// assignedLocal returns the index of a local variable of the frame that has been
// assigned, no parameter, or -1. Variables that closures capture do not count:
// they live in cells, which are there from the beginning.
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

// replaced says whether the innermost activation is certainly not the one that was
// walked: it is another function's, or a variable that was assigned is not. No
// instruction undoes an assignment to a local variable.
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

// identical says whether two callables are the same value, as far as it can be
// known: those of the host's own types are told apart by type and name only, since
// Go may not be able to compare them. Nil is identical to nothing.
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

// lost notes that steps were executed of which at was not told.
func (s *stack) lost(depth int) {
	s.same = min(s.same, depth)
	s.callback = false
	s.doubt = true
}

// local is the key under which a thread keeps what was walked, from Detach to
// Attach.
const local = "github.com/ccmapd/ccmapd/sampler/starlark"

// keep leaves the marks with the thread, if there are activations that may have one
// when the thread is attached again.
func (s *stack) keep() {
	switch depth := s.thread.CallStackDepth(); {
	case s.exact && depth > 0:
		s.thread.SetLocal(local, s.walked[:min(s.same, depth)])
	case s.thread.Local(local) != nil:
		s.thread.SetLocal(local, nil)
	}
}

// recall takes up the marks that an earlier attachment has left.
func (s *stack) recall() {
	if walked, ok := s.thread.Local(local).([]activation); ok && s.exact {
		s.walked, s.same = walked, len(walked)
		s.lost(s.thread.CallStackDepth())
	}
}

// Walk is managed.Walker's.
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

// frames calls visit with every frame from the i-th on, counted from the innermost,
// until it returns false. The frames have no mark.
func (s *stack) frames(i int, visit func(int, managed.Frame, starlark.Callable) bool) {
	for depth := s.thread.CallStackDepth(); i < depth; i++ {
		frame := s.thread.DebugFrame(i)
		callable := frame.Callable()
		if !visit(i, s.frame(frame, callable), callable) {
			return
		}
	}
}

// frame describes a frame. A function is where its last step was: a safe point comes
// before the next one, so the time since the last safe point was spent there.
func (s *stack) frame(f starlark.DebugFrame, c starlark.Callable) managed.Frame {
	return managed.Frame{Method: s.methods.of(c), Offset: offset(c, f.Position())}
}

// settle takes the marks off the activations that have ended since the last walk,
// and makes room for those of the stack.
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

// unchanged returns how many of the outermost activations, most at most, are those
// of the last walk or cannot be told from them.
//
// A function that waits for a call has executed a step, so it has not changed since
// it was last seen deeper than same. Only what lies above the innermost such
// function has to be compared.
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

// waiting returns the depth of the innermost function that is less deep than most;
// 0 if there is none.
func (s *stack) waiting(most int) int {
	for k := most - 1; k > 0; k-- {
		if _, ok := s.callable(k - 1).(*starlark.Function); ok {
			return k
		}
	}
	return 0
}

// callable returns what the k-th activation executes, the outermost being 0.
func (s *stack) callable(k int) starlark.Callable {
	return s.thread.DebugFrame(s.thread.CallStackDepth() - 1 - k).Callable()
}
