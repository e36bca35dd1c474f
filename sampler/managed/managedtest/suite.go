// Package managedtest checks a VM's walker for package managed.
//
// The author of a VM writes a small guest program in the VM's language. Its two methods
// do as a host function says:
//
//	func A() {                  func B() {
//	    for {                       for {
//	        switch next() {             switch next() {
//	        case 0: return              case 0: return
//	        case 1: A()                 case 1: A()
//	        case 2: B()                 case 2: B()
//	        }                           }
//	    }                           }
//	}                           }
//
// and passes it to [Run] from a test:
//
//	func TestWalker(t *testing.T) {
//		vm := newVM()
//		managedtest.Run(t, managedtest.VM{
//			Names: vm.names, A: "A", B: "B",
//			Run: func(next func(managed.Walker) managedtest.Op) error {
//				return vm.run(func() int { return int(next(vm.walker())) })
//			},
//		})
//	}
//
// The suite leads the program through calls, returns and recursion. It knows the stack at
// each call of next and takes samples there, with a profiler of its own.
package managedtest

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// Op is the guest program's next operation.
type Op int

// The program's operations.
const (
	Return Op = iota // from the method that has called next
	CallA
	CallB
)

// VM is a VM that runs the guest program.
type VM struct {
	// Names is the table of the walkers' methods. A and B are the names of the program's
	// methods in it.
	Names *ccmap.Names
	A, B  string

	// Run calls A on a new stack and returns when A returns. Next is the body of the
	// program's next. Its walker shows the stack of that moment and is not used later.
	// The VM may have frames of its own above and below the program's, always the same
	// ones. The frames above are new at each call of next.
	Run func(next func(managed.Walker) Op) error

	// NoMarks says that frames have no slots. Activations are then not checked.
	NoMarks bool
}

// Run checks the VM in subtests, one for each of its duties. It measures allocations, so
// the test must not be parallel.
func Run(t *testing.T, vm VM) {
	for _, c := range checks {
		if vm.NoMarks && c.marks {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(vm); err != nil {
				t.Error(err)
			}
		})
	}
}

// check is one duty of a VM.
type check struct {
	name  string
	marks bool // frames need slots
	check func(VM) error
}

var checks = []check{
	{"frames", false, checkFrames},
	{"repeatable", false, checkRepeatable},
	{"stopped", false, checkStopped},
	{"interrupted", false, checkInterrupted},
	{"allocations", false, checkAllocations},
	{"slots", true, checkSlots},
	{"new", true, checkNew},
	{"samples", true, checkSamples},
	{"drops", true, checkDrops},
	{"attached again", true, checkAttachedAgain},
}
