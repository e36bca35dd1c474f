// Package toyjit is a small VM with a compiler, for tests of cached profiles: what an earlier run has left makes it
// faster, as long as it fits.
//
// Its only clock is the steps that it takes: an interpreted instruction takes 4, a compiled one 1, to throw compiled
// code away 20. The compiler specializes a virtual call to the receiver that had nearly all of its calls. Code that
// meets another receiver is thrown away.
package toyjit

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// Costs in steps, and the calls after which a method is compiled.
const (
	interpreted, compiled, thrown = 4, 1, 20
	threshold                     = 2000
	optimizing                    = 4 // the compiler's level
)

// Op is an instruction.
type Op struct {
	Kind string // "work", "virtual": a call of the receiver's method
	N    int    // of "work": what is added to the sum
}

// Method is a method of a program.
type Method struct {
	Name string
	Code []Op
}

// VM runs programs. It belongs to one goroutine.
type VM struct {
	profiler *managed.Profiler
	thread   *managed.Thread
	methods  []method
	receiver func(call int) int // the method that a virtual call reaches

	calls    int // virtual ones so far
	Sum      int
	Steps    int
	Compiled int // compilations
	Cached   int // of them by a cached profile
	Thrown   int
}

type method struct {
	Method
	id     ccmap.MethodID
	called int         // since it was compiled, or thrown away
	counts map[int]int // receivers of its virtual call, by method
	guess  int         // the receiver that compiled code is for; -1: any
	code   bool        // it is compiled
	mark   managed.Mark
}

// New returns a VM with methods, whose thread is attached to the profiler.
func New(p *managed.Profiler, methods []Method, receiver func(call int) int) *VM {
	vm := &VM{profiler: p, receiver: receiver, thread: p.Attach(managed.ThreadOptions{})}
	for _, m := range methods {
		id := p.Sink().Names.Intern(ccmap.Method{Name: m.Name, Coordinate: ccmap.CoordinateBytecode})
		vm.methods = append(vm.methods, method{Method: m, id: id, counts: make(map[int]int)})
	}
	return vm
}

// Close detaches the thread.
func (vm *VM) Close() { vm.thread.Detach() }

// frames are a stack, outermost first.
type frames []managed.Frame

// Walk implements [managed.Walker].
func (f frames) Walk(visit func(managed.Frame) bool) {
	for _, one := range slices.Backward(f) {
		if !visit(one) {
			return
		}
	}
}

// Run calls a method, whose caller is on the stack.
func (vm *VM) Run(i int) { vm.run(i, nil) }

func (vm *VM) run(i int, stack frames) {
	m := &vm.methods[i]
	mark := m.mark
	m.mark = managed.Mark{}
	stack = append(stack, managed.Frame{Method: m.id, Mark: &m.mark})
	vm.thread.Safepoint(stack)
	if m.called++; !m.code && float64(m.called) >= threshold*vm.profiler.Threshold(m.id) {
		vm.compile(m)
	}
	for at, op := range m.Code {
		vm.Steps += cost(m.code)
		stack[len(stack)-1].Offset = uint32(at)
		switch op.Kind {
		case "work":
			vm.Sum += op.N
		case "virtual":
			to := vm.receiver(vm.calls)
			vm.calls++
			m.counts[to]++
			if m.code && m.guess >= 0 && m.guess != to {
				vm.throwAway(m)
			}
			vm.run(to, stack)
		}
	}
	m.mark = mark
}

func cost(isCompiled bool) int {
	if isCompiled {
		return compiled
	}
	return interpreted
}

// compile compiles a method by its cached profile, or else by what was counted.
func (vm *VM) compile(m *method) {
	m.code, m.guess, m.called = true, -1, 0
	vm.Compiled++
	if level, points := vm.profiler.Cached(m.id); level > 0 {
		vm.Cached++
		m.guess = vm.dominant(points)
		return // which is no news for the next run
	}
	total := 0
	for _, n := range m.counts {
		total += n
	}
	for to, n := range m.counts {
		if 10*n >= 9*total {
			m.guess = to
		}
	}
	var calls []managed.Inlined
	for to := range m.counts {
		calls = append(calls, managed.Inlined{Caller: m.id, Callee: vm.methods[to].id, Inlined: to == m.guess, Why: "by its calls"})
	}
	slices.SortFunc(calls, func(a, b managed.Inlined) int { return cmp.Compare(a.Callee, b.Callee) })
	vm.thread.Compiled(m.id, optimizing, calls)
}

// dominant returns the receiver of a call that points say has nearly all calls; -1: there is none.
func (vm *VM) dominant(points []ccmap.Point) int {
	for _, p := range points {
		if p.Kind == ccmap.PointCall && len(p.Values) > 0 && 10*p.Values[0].Count >= 9*p.Count {
			return slices.IndexFunc(vm.methods, func(m method) bool { return uint64(m.id) == p.Values[0].Value })
		}
	}
	return -1
}

// throwAway goes back to the interpreter. What was counted before says nothing of the new receivers.
func (vm *VM) throwAway(m *method) {
	m.code, m.called = false, 0
	clear(m.counts)
	vm.Thrown++
	vm.Steps += thrown
	vm.thread.Deoptimized(m.id)
}

// Points returns what the VM has counted of its virtual calls, for a map.
func (vm *VM) Points() (points []ccmap.Point) {
	for _, m := range vm.methods {
		p := ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointCall, Method: m.id, Nulls: ccmap.NullsUnknown}
		p.Offset = uint32(max(slices.IndexFunc(m.Code, func(o Op) bool { return o.Kind == "virtual" }), 0))
		for to, n := range m.counts {
			p.Values = append(p.Values, ccmap.PointValue{Value: uint64(vm.methods[to].id), Count: int64(n)})
		}
		if len(p.Values) > 0 {
			points = append(points, p)
		}
	}
	return points
}
