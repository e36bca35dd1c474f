package managed_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// machine is a small interpreter. Its functions are lists of instructions.
type machine struct {
	functions []function
	stack     []frame // outermost first
	executed  int

	profiler *managed.Profiler
	thread   *managed.Thread
}

type function struct {
	method ccmap.MethodID
	code   []instruction
}

type instruction struct {
	op  string // "work"; "call" a function; "repeat" from instruction to, count times; "return"
	to  int
	num int
}

type frame struct {
	function int
	pc       int
	repeated int
	mark     managed.Mark // the slot
}

// Walk implements managed.Walker.
func (m *machine) Walk(visit func(managed.Frame) bool) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		f := &m.stack[i]
		if !visit(managed.Frame{Method: m.functions[f.function].method, Offset: uint32(f.pc), Mark: &f.mark}) {
			return
		}
	}
}

// call begins an activation, whose slot is zero. Every call is a safe point.
func (m *machine) call(function int) {
	m.stack = append(m.stack, frame{function: function})
	m.thread.Safepoint(m)
}

func (m *machine) run() {
	m.thread = m.profiler.Attach(managed.ThreadOptions{})
	defer m.thread.Detach()
	for m.call(0); len(m.stack) > 0; m.executed++ {
		if m.executed%10 == 0 { // a marker would go by time here
			m.profiler.Mark(10 * time.Nanosecond)
		}
		m.execute()
	}
}

func (m *machine) execute() {
	f := &m.stack[len(m.stack)-1]
	switch i := m.functions[f.function].code[f.pc]; i.op {
	case "call":
		m.call(i.to)
		return
	case "repeat": // every way back is a safe point
		m.thread.Safepoint(m)
		if f.repeated++; f.repeated < i.num {
			f.pc = i.to
			return
		}
		f.repeated = 0
	case "return":
		if m.stack = m.stack[:len(m.stack)-1]; len(m.stack) == 0 {
			return
		}
		f = &m.stack[len(m.stack)-1] // it goes on after its call
	}
	f.pc++
}

// newMachine returns a machine that draws a scene of shapes.
func newMachine(p *managed.Profiler) *machine {
	named := func(name string, code ...instruction) function {
		return function{p.Sink().Names.Intern(ccmap.Method{Name: name, Coordinate: ccmap.CoordinateBytecode}), code}
	}
	return &machine{profiler: p, functions: []function{
		named("main", instruction{op: "call", to: 1}, instruction{op: "repeat", num: 20}, instruction{op: "return"}),
		named("scene", instruction{op: "call", to: 2}, instruction{op: "call", to: 3}, instruction{op: "return"}),
		named("circle", instruction{op: "work"}, instruction{op: "repeat", num: 30}, instruction{op: "return"}),
		named("square", instruction{op: "work"}, instruction{op: "repeat", num: 10}, instruction{op: "return"}),
	}}
}

// A small interpreter embeds the SDK: a slot in each frame, a walker, safe points. This
// one marks its threads by executed instructions, so that the result is always the same.
// Without Interval there would be a mark every 10 ms.
func Example() {
	profiler := managed.New(managed.Options{Interval: -1})
	session, err := manager.Start(context.Background(), manager.Config{Source: profiler})
	if err != nil {
		fmt.Println(err)
		return
	}
	vm := newMachine(profiler)
	vm.run()
	profiler.Finish("program ended")
	<-session.Done()

	fmt.Println(vm.executed, "instructions")
	for p := range session.Snapshot().Methods() {
		fmt.Printf("%-6s  in %3d samples, %3d on top, %2d activations seen\n",
			p.Method().Name, p.Cumulative().Samples, p.Self().Samples, p.Total().Activations)
	}
	// Output:
	// 1741 instructions
	// main    in 174 samples,   6 on top,  1 activations seen
	// scene   in 168 samples,   2 on top, 20 activations seen
	// circle  in 122 samples, 122 on top, 20 activations seen
	// square  in  44 samples,  44 on top, 20 activations seen
}

// A VM with dynamic calls reports the target of each call during a burst: the receiver's
// exact type, which samples do not show.
func ExampleThread_Called() {
	profiler := managed.New(managed.Options{Interval: -1})
	names := profiler.Sink().Names
	vm := newMachine(profiler)
	vm.thread = profiler.Attach(managed.ThreadOptions{})
	draw := []ccmap.MethodID{
		names.Intern(ccmap.Method{Name: "circle.draw", Receiver: "circle"}),
		names.Intern(ccmap.Method{Name: "square.draw", Receiver: "square"}),
	}
	vm.call(1)                 // scene, which makes the calls
	profiler.Mark(time.Minute) // a burst is due by then
	for i := range 100 {
		if vm.thread.CallsWanted() {
			vm.thread.Called(draw[i%4/3], vm)
		}
	}
	vm.thread.Detach()

	reached := make(map[string]int)
	profiler.Sink().Queue.Drain(func(s *ccmap.Sample) {
		callee, caller := names.At(s.Frames[0].Method), names.At(s.Frames[1].Method)
		reached[caller.Name+" > "+callee.Name]++
	})
	fmt.Println(profiler.Stats().Counts[sampler.Caught], "calls caught:", reached)
	// Output: 32 calls caught: map[scene > circle.draw:24 scene > square.draw:8]
}

// A VM that interprets or compiles branches and casts counts them at sites that it asks for
// once. Its threads give the counts away at their safe points.
func ExampleThread_Branch() {
	profiler := managed.New(managed.Options{Interval: -1, Points: managed.Branches | managed.Types})
	names := profiler.Sink().Names
	area := names.Intern(ccmap.Method{Name: "area", Coordinate: ccmap.CoordinateBytecode})
	circle := names.Intern(ccmap.Method{Name: "Circle", Receiver: "Circle"})
	empty := profiler.Site(ccmap.PointBranch, ccmap.Frame{Method: area, Offset: 3})
	cast := profiler.Site(ccmap.PointType, ccmap.Frame{Method: area, Offset: 8})

	session, err := manager.Start(context.Background(), manager.Config{Source: profiler})
	if err != nil {
		fmt.Println(err)
		return
	}
	thread := profiler.Attach(managed.ThreadOptions{})
	for i := range 100 {
		thread.Branch(empty, i%10 == 0)
		if i%20 == 0 {
			thread.Type(cast, ccmap.NoMethod)
		} else {
			thread.Type(cast, circle)
		}
	}
	thread.Detach()
	profiler.Finish("program ended")
	<-session.Done()

	for _, p := range session.Snapshot().Points() {
		fmt.Println(names.At(p.Method).Name, p.Offset, p.Kind, p.Count, "most:", p.Values[0].Count, "nulls:", p.Nulls)
	}
	// Output:
	// area 3 branch 100 most: 90 nulls: -1
	// area 8 type 100 most: 95 nulls: 5
}
