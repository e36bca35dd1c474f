package managedtest

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// Op is what the guest program does next.
type Op int

// The program's operations.
const (
	Return Op = iota // from the method that has called next
	CallA
	CallB
)

// VM is a VM that runs the guest program.
type VM struct {
	// Names is the table that the walkers' methods are of, and A and B are the names
	// that the program's methods have there.
	Names *ccmap.Names
	A, B  string

	// Run calls A on a new stack and returns when A has. Next is what the program's
	// next does; its walker shows the stack of that moment and is not used after.
	// Frames of the VM's own may lie above and below those of the program, always
	// the same ones; of those above, all are new at each call of next.
	Run func(next func(managed.Walker) Op) error

	// NoMarks says that frames have no slots. Activations are then not checked.
	NoMarks bool
}

// Run checks the VM in subtests, one for each of its duties. As it measures
// allocations, the test may not be parallel.
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
