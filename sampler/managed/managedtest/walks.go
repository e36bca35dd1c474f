package managedtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

// stops is how many operations the programs have.
const stops = 300

// checkFrames checks that a walk shows the stack, innermost frame first, with
// methods that are in the table.
func checkFrames(vm VM) error {
	return run(vm, wander(1, stops), func(g *guest, w managed.Walker) error {
		frames := walk(w)
		if len(frames) != g.depth() {
			return fmt.Errorf("a walk has %d frames instead of %d (%d calls of the program)", len(frames), g.depth(), len(g.calls))
		}
		for i, f := range frames {
			name := g.name(f.Method)
			if c := g.call(i); c != nil && name != c.name {
				return fmt.Errorf("frame %d of %d is of %s instead of %s", i, len(frames), name, c.name)
			}
			if int64(f.Method) >= int64(vm.Names.Len()) {
				return fmt.Errorf("frame %d of %d is of %s", i, len(frames), name)
			}
		}
		return nil
	})
}

// checkRepeatable checks that two walks without progress in between show the
// same, slots included.
func checkRepeatable(vm VM) error {
	return run(vm, wander(2, stops), func(_ *guest, w managed.Walker) error {
		if a, b := walk(w), walk(w); !slices.Equal(a, b) {
			return fmt.Errorf("a walk shows %v, and the next one %v", a, b)
		}
		return nil
	})
}

// checkStopped checks that a walk ends when it is told to.
func checkStopped(vm VM) error {
	return run(vm, wander(3, stops/4), func(g *guest, w managed.Walker) error {
		for most := 1; most <= g.depth(); most++ {
			n := 0
			w.Walk(func(managed.Frame) bool {
				n++
				return n < most
			})
			if n != most {
				return fmt.Errorf("a walk that was to stop after %d frames of %d has shown %d", most, g.depth(), n)
			}
		}
		return nil
	})
}

// errInterrupted is what visit panics with.
var errInterrupted = errors.New("interrupted")

// checkInterrupted checks that a walker lets a panic of visit through, and can
// walk again after it.
func checkInterrupted(vm VM) error {
	return run(vm, wander(4, stops/4), func(_ *guest, w managed.Walker) error {
		before := walk(w)
		if err := interrupt(w); err != nil {
			return err
		}
		if after := walk(w); !slices.Equal(before, after) {
			return fmt.Errorf("a walk shows %v, and after one that was interrupted %v", before, after)
		}
		return nil
	})
}

func interrupt(w managed.Walker) (err error) {
	defer func() {
		if cause := recover(); cause != errInterrupted {
			err = fmt.Errorf("visit has panicked, and the walker with %v instead", cause)
		}
	}()
	w.Walk(func(managed.Frame) bool { panic(errInterrupted) })
	return errors.New("visit has panicked, and the walker has gone on")
}

// checkAllocations checks that a walk allocates nothing.
func checkAllocations(vm VM) error {
	visit := func(managed.Frame) bool { return true }
	return run(vm, wander(5, 10), func(g *guest, w managed.Walker) error {
		if n := testing.AllocsPerRun(20, func() { w.Walk(visit) }); n > 0 {
			return fmt.Errorf("a walk of %d frames allocates %v times", g.depth(), n)
		}
		return nil
	})
}
