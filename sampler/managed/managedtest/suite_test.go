package managedtest

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// record is an activation record of toy.
type record struct {
	method ccmap.MethodID
	offset uint32
	mark   *managed.Mark
}

// toy is a correct VM that tests can break.
type toy struct {
	names      *ccmap.Names
	a, b, host ccmap.MethodID
	stack      []record // outermost first
	marks      []managed.Mark

	newMark func(*toy) *managed.Mark             // of a new activation
	walk    func(*toy, func(managed.Frame) bool) // in place of walkStack
}

func newToy() *toy {
	v := &toy{names: ccmap.NewNames()}
	v.a = v.names.Intern(ccmap.Method{Name: "A"})
	v.b = v.names.Intern(ccmap.Method{Name: "B"})
	v.host = v.names.Intern(ccmap.Method{Name: "next"})
	v.newMark = func(*toy) *managed.Mark { return new(managed.Mark) }
	v.walk = (*toy).walkStack
	return v
}

// Walk implements managed.Walker.
func (v *toy) Walk(visit func(managed.Frame) bool) { v.walk(v, visit) }

func (v *toy) walkStack(visit func(managed.Frame) bool) {
	for i := len(v.stack) - 1; i >= 0; i-- {
		r := v.stack[i]
		if !visit(managed.Frame{Method: r.method, Offset: r.offset, Mark: r.mark}) {
			return
		}
	}
}

func (v *toy) push(m ccmap.MethodID) { v.stack = append(v.stack, record{m, 0, v.newMark(v)}) }
func (v *toy) pop()                  { v.stack = v.stack[:len(v.stack)-1] }

// call runs a method of the program.
func (v *toy) call(m ccmap.MethodID, next func(managed.Walker) Op) {
	v.push(m)
	defer v.pop()
	here := &v.stack[len(v.stack)-1].offset
	for {
		*here = 1
		v.push(v.host)
		op := next(v)
		v.pop()
		here = &v.stack[len(v.stack)-1].offset
		switch *here = 1 + uint32(op); op {
		case CallA:
			v.call(v.a, next)
		case CallB:
			v.call(v.b, next)
		default:
			return
		}
	}
}

func (v *toy) vm() VM {
	return VM{Names: v.names, A: "A", B: "B", Run: func(next func(managed.Walker) Op) error {
		v.call(v.a, next)
		return nil
	}}
}

// A correct VM passes.
func TestRun(t *testing.T) { Run(t, newToy().vm()) }

// A VM without slots passes the checks that need none.
func TestRunNoMarks(t *testing.T) {
	v := newToy()
	v.newMark = func(*toy) *managed.Mark { return nil }
	vm := v.vm()
	vm.NoMarks = true
	Run(t, vm)
}

// Every way to break a VM is found by the check for it.
func TestBroken(t *testing.T) {
	for _, broken := range []struct {
		name  string
		apply func(*toy)
		by    []string
	}{
		{"outermost first", func(v *toy) { v.walk = outermostFirst }, []string{"frames"}},
		{"empty", func(v *toy) { v.walk = func(*toy, func(managed.Frame) bool) {} }, []string{"frames", "stopped", "slots", "samples"}},
		{"frame left out", func(v *toy) { v.walk = leaveOut }, []string{"frames", "stopped"}},
		{"unknown method", func(v *toy) { v.host = 100 }, []string{"frames"}},
		{"not repeatable", func(v *toy) { v.walk = moveOn }, []string{"repeatable"}},
		{"does not stop", func(v *toy) { v.walk = onAndOn }, []string{"stopped"}},
		{"swallows panics", func(v *toy) { v.walk = swallow }, []string{"interrupted"}},
		{"allocates", func(v *toy) { v.walk = allocate }, []string{"allocations"}},
		{"no slots", func(v *toy) { v.newMark = func(*toy) *managed.Mark { return nil } }, []string{"slots"}},
		{"one slot for all", func(v *toy) { m := new(managed.Mark); v.newMark = func(*toy) *managed.Mark { return m } }, []string{"slots", "new", "samples"}},
		{"slots never cleared", func(v *toy) { v.newMark = bySlot }, []string{"new", "samples", "drops", "attached again"}},
		{"slots always new", func(v *toy) { v.walk = copySlots }, []string{"repeatable", "new", "samples", "drops", "attached again"}},
	} {
		t.Run(broken.name, func(t *testing.T) {
			v := newToy()
			broken.apply(v)
			found := make(map[string]error)
			for _, c := range checks {
				v.stack = v.stack[:0]
				if err := c.check(v.vm()); err != nil {
					found[c.name] = err
				}
			}
			for _, name := range broken.by {
				if found[name] == nil {
					t.Errorf("%q does not find it; found: %v", name, found)
				}
			}
		})
	}
}

func outermostFirst(v *toy, visit func(managed.Frame) bool) {
	for _, r := range v.stack {
		if !visit(managed.Frame{Method: r.method, Offset: r.offset, Mark: r.mark}) {
			return
		}
	}
}

func leaveOut(v *toy, visit func(managed.Frame) bool) {
	n := 0
	v.walkStack(func(f managed.Frame) bool {
		n++
		return n == 3 || visit(f)
	})
}

func moveOn(v *toy, visit func(managed.Frame) bool) {
	v.stack[len(v.stack)-1].offset++
	v.walkStack(visit)
}

func onAndOn(v *toy, visit func(managed.Frame) bool) {
	v.walkStack(func(f managed.Frame) bool {
		visit(f)
		return true
	})
}

func swallow(v *toy, visit func(managed.Frame) bool) {
	defer func() { recover() }()
	v.walkStack(visit)
}

var escaped []record

func allocate(v *toy, visit func(managed.Frame) bool) {
	escaped = append([]record(nil), v.stack...)
	v.walkStack(visit)
}

// bySlot gives an activation the slot of its depth, as the earlier activation left it.
func bySlot(v *toy) *managed.Mark {
	if v.marks == nil {
		v.marks = make([]managed.Mark, 1000)
	}
	return &v.marks[len(v.stack)]
}

func copySlots(v *toy, visit func(managed.Frame) bool) {
	v.walkStack(func(f managed.Frame) bool {
		m := *f.Mark
		f.Mark = &m
		return visit(f)
	})
}
