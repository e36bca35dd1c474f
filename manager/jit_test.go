package manager_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// jitVM is a VM with a compiler. Code is a list of instructions, each a step; the compiler makes shorter lists of
// hot methods: it joins additions, and puts the body of a method in place of a call that has one target.
//
//	stack … thread  the goroutine that runs code
//	code            any goroutine
type jitVM struct {
	names    *ccmap.Names
	profiler *managed.Profiler
	methods  []ccmap.MethodID
	source   [][]step // by method
	code     []atomic.Pointer[[]step]

	stack    []jitFrame
	sum      int
	steps    int
	receiver int // of virtual calls: a method
	thread   *managed.Thread
}

type step struct {
	op  string // "add" n; "call" method n; "virtual"; "inlined": n more steps stand for a virtual call of method to; "repeat" from step to, n times; "return"
	n   int
	to  int
	off uint32 // of the instruction of the source
}

type jitFrame struct {
	method, pc int
	code       []step
	repeated   int
	mark       managed.Mark
}

// Methods of the program.
const (
	jitMain = iota
	jitSetup
	jitScene
	jitCircle
	jitSquare
)

func newJitVM(p *managed.Profiler) *jitVM {
	vm := &jitVM{names: p.Sink().Names, profiler: p, receiver: jitCircle}
	vm.source = [][]step{
		jitMain:   {{op: "call", n: jitSetup}, {op: "call", n: jitScene}, {op: "repeat", to: 1, n: 20}, {op: "return"}},
		jitSetup:  {{op: "add", n: 1}, {op: "add", n: 2}, {op: "return"}},
		jitScene:  {{op: "virtual"}, {op: "add", n: 1}, {op: "repeat", to: 0, n: 30}, {op: "return"}},
		jitCircle: {{op: "add", n: 3}, {op: "add", n: 4}, {op: "add", n: 5}, {op: "return"}},
		jitSquare: {{op: "add", n: 7}, {op: "return"}},
	}
	vm.code = make([]atomic.Pointer[[]step], len(vm.source))
	for i, name := range []string{"main", "setup", "scene", "circle.draw", "square.draw"} {
		vm.methods = append(vm.methods, vm.names.Intern(ccmap.Method{Name: name, Coordinate: ccmap.CoordinateBytecode}))
		for at := range vm.source[i] {
			vm.source[i][at].off = uint32(at)
		}
		vm.code[i].Store(&vm.source[i])
	}
	return vm
}

// Walk implements managed.Walker.
func (vm *jitVM) Walk(visit func(managed.Frame) bool) {
	for i := len(vm.stack) - 1; i >= 0; i-- {
		f := &vm.stack[i]
		if !visit(managed.Frame{Method: vm.methods[f.method], Offset: f.code[f.pc].off, Mark: &f.mark}) {
			return
		}
	}
}

// run runs the program once, and returns its result and its steps.
func (vm *jitVM) run() (sum, steps int) {
	vm.sum, vm.steps = 0, 0
	for vm.call(jitMain); len(vm.stack) > 0; vm.steps++ {
		if vm.steps%16 == 0 {
			vm.profiler.Mark(16 * time.Nanosecond)
		}
		vm.execute()
	}
	return vm.sum, vm.steps
}

func (vm *jitVM) call(method int) {
	vm.stack = append(vm.stack, jitFrame{method: method, code: *vm.code[method].Load()})
	vm.thread.Safepoint(vm)
}

func (vm *jitVM) execute() {
	f := &vm.stack[len(vm.stack)-1]
	switch s := f.code[f.pc]; s.op {
	case "add":
		vm.sum += s.n
	case "call":
		vm.call(s.n)
		return
	case "virtual":
		vm.call(vm.receiver)
		return
	case "inlined":
		if vm.receiver != s.to { // the compiler was wrong
			f.pc += s.n
			vm.call(vm.receiver)
			return
		}
	case "repeat":
		vm.thread.Safepoint(vm)
		if f.repeated++; f.repeated < s.n {
			f.pc = s.to
			return
		}
		f.repeated = 0
	case "return":
		if vm.stack = vm.stack[:len(vm.stack)-1]; len(vm.stack) == 0 {
			return
		}
		f = &vm.stack[len(vm.stack)-1] // it goes on after its call
	}
	f.pc++
}

// compiler compiles the methods of hot events, in a goroutine of its own.
type compiler struct {
	vm    *jitVM
	queue chan manager.Event
	work  sync.WaitGroup
	made  chan string // names of methods
}

func newCompiler(vm *jitVM) *compiler {
	c := &compiler{vm: vm, queue: make(chan manager.Event, 16), made: make(chan string, 16)}
	c.work.Go(func() {
		for e := range c.queue {
			method := slices.Index(vm.methods, e.Method)
			code := c.compile(method, e.Snapshot)
			vm.code[method].Store(&code)
			c.made <- vm.names.At(e.Method).Name
		}
	})
	return c
}

// onHot must not block: events beyond the queue's room are dropped.
func (c *compiler) onHot(e manager.Event) {
	select {
	case c.queue <- e:
	default:
	}
}

func (c *compiler) end() {
	close(c.queue)
	c.work.Wait()
}

// compile returns code of a method. Targets of back edges move as code becomes shorter or longer.
func (c *compiler) compile(method int, s *ccmap.Snapshot) (code []step) {
	moved := make(map[int]int)
	for at, one := range c.vm.source[method] {
		moved[at] = len(code)
		switch one.op {
		case "virtual":
			code = append(code, c.inline(method, one, s)...)
		default:
			code = append(code, one)
		}
	}
	for i := range code {
		if code[i].op == "repeat" {
			code[i].to = moved[code[i].to]
		}
	}
	return code
}

// inline returns what stands for a virtual call: the call, or the body of the single target that the call has had.
func (c *compiler) inline(method int, call step, s *ccmap.Snapshot) []step {
	profile, _ := s.Method(c.vm.methods[method])
	for site := range profile.CallSites() {
		targets := slices.Collect(site.Callees())
		if site.Offset() != call.off || len(targets) != 1 {
			continue
		}
		target := slices.Index(c.vm.methods, targets[0].Callee())
		body := joined(c.vm.source[target], call.off)
		return append([]step{{op: "inlined", n: len(body), to: target, off: call.off}}, body...)
	}
	return []step{call}
}

// joined returns the additions of a body as one.
func joined(body []step, off uint32) []step {
	sum := step{op: "add", off: off}
	for _, s := range body {
		sum.n += s.n
	}
	return []step{sum}
}

// interpret returns the result and the steps of a run that nobody compiles.
func interpret() (sum, steps int) {
	profiler := managed.New(managed.Options{Interval: -1})
	vm := newJitVM(profiler)
	vm.thread = profiler.Attach(managed.ThreadOptions{})
	defer vm.thread.Detach()
	return vm.run()
}

// TestCompilerActsOnHotEvents: a compiler that is told what is hot makes the program faster, and not what is cold;
// the program computes the same, also when the receivers change. Steps are counted, not time.
func TestCompilerActsOnHotEvents(t *testing.T) {
	t.Parallel()
	profiler := managed.New(managed.Options{Interval: -1})
	vm := newJitVM(profiler)
	c := newCompiler(vm)
	session, err := manager.Start(t.Context(), manager.Config{
		Source: profiler, PublishEvery: time.Millisecond, OnHot: c.onHot,
		Hot: manager.Thresholds{Method: manager.Threshold{Percent: 20, Window: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	vm.thread = profiler.Attach(managed.ThreadOptions{})
	result, interpreted := interpret()
	made := make(map[string]int)
	for runs := 0; made["scene"] == 0; runs++ {
		if sum, _ := vm.run(); sum != result {
			t.Fatalf("the program computes %d, interpreted %d", sum, result)
		}
		if _, err := session.Fresh(t.Context()); err != nil || runs > 10_000 {
			t.Fatalf("the scene did not become hot in %d runs: %v", runs, err)
		}
		for len(c.made) > 0 {
			made[<-c.made]++
		}
	}
	sum, compiled := vm.run()
	if sum != result || compiled >= 2*interpreted/3 {
		t.Errorf("the compiled program computes %d in %d steps, the interpreted one %d in %d", sum, compiled, result, interpreted)
	}
	vm.receiver = jitSquare // and the compiler's guess is wrong
	if sum, _ := vm.run(); sum != result-20*30*(3+4+5-7) {
		t.Errorf("with other receivers the program computes %d", sum)
	}
	vm.thread.Detach()
	profiler.Finish("program ended")
	<-session.Done()
	c.end()
	if _, err := session.Stop(); err != nil {
		t.Error(err)
	}
	close(c.made)
	for name := range c.made {
		made[name]++
	}
	if made["setup"] > 0 || made["scene"] != 1 {
		t.Errorf("compiled: %v", made)
	}
}
