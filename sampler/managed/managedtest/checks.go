package managedtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// stops is the number of operations of a program.
const stops = 300

// checkFrames checks that a walk shows the stack, innermost frame first, with methods of
// the table.
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

// checkRepeatable checks that two walks without progress in between show the same, slots
// included.
func checkRepeatable(vm VM) error {
	return run(vm, wander(2, stops), func(_ *guest, w managed.Walker) error {
		if a, b := walk(w), walk(w); !slices.Equal(a, b) {
			return fmt.Errorf("a walk shows %v, and the next one %v", a, b)
		}
		return nil
	})
}

// checkStopped checks that a walk ends when visit says so.
func checkStopped(vm VM) error {
	return run(vm, wander(3, stops/4), func(g *guest, w managed.Walker) error {
		for most := 1; most <= g.depth(); most++ {
			n := 0
			w.Walk(func(managed.Frame) bool {
				n++
				return n < most
			})
			if n != most {
				return fmt.Errorf("a walk that must stop after %d frames of %d has shown %d", most, g.depth(), n)
			}
		}
		return nil
	})
}

// visit panics with errInterrupted.
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
			return fmt.Errorf("a walk shows %v, and after an interrupted walk %v", before, after)
		}
		return nil
	})
}

func interrupt(w managed.Walker) (err error) {
	defer func() {
		if cause := recover(); cause != errInterrupted {
			err = fmt.Errorf("visit has panicked, but the walker panics with %v", cause)
		}
	}()
	w.Walk(func(managed.Frame) bool { panic(errInterrupted) })
	return errors.New("visit has panicked, but the walker goes on")
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

// checkSlots checks that each activation has its own slot.
func checkSlots(vm VM) error {
	return run(vm, wander(6, stops), func(g *guest, w managed.Walker) error {
		of := make(map[*managed.Mark]int)
		for i, f := range walk(w) {
			if f.Mark == nil {
				if g.call(i) != nil {
					return fmt.Errorf("frame %d, of %s, has no slot", i, g.name(f.Method))
				}
				continue
			}
			if other, twice := of[f.Mark]; twice {
				return fmt.Errorf("frames %d and %d have the same slot", other, i)
			}
			of[f.Mark] = i
		}
		return nil
	})
}

// checkNew checks the shortest case: an activation is sampled twice, returns, and is
// called again from the same place.
func checkNew(vm VM) error {
	for _, again := range [][]Op{
		{CallB, Return, CallB},
		{CallA, Return, CallA},
		{CallA, CallA, Return, CallA},
		{CallB, CallA, CallB, Return, Return, CallA},
	} {
		s := newSession(vm, queue.Options{})
		err := run(vm, script(again...), func(g *guest, w managed.Walker) error {
			s.count(g, w)
			if err := s.sample(g, w); err != nil {
				return err
			}
			return s.sample(g, w)
		})
		if err == nil {
			err = s.finish()
		}
		if err != nil {
			return fmt.Errorf("program %v: %w", again, err)
		}
	}
	return nil
}

// checkSamples takes samples now and then, and folds them. The map must have the contexts
// of the stacks, and count the activations that samples have seen.
func checkSamples(vm VM) error {
	return sampleAtRandom(vm, newSession(vm, queue.Options{}), 10, false)
}

// checkDrops is checkSamples with rings that become full again and again.
func checkDrops(vm VM) error {
	return sampleAtRandom(vm, newSession(vm, queue.Options{RingWords: 128}), 100, false)
}

// checkAttachedAgain is checkSamples with a thread that is detached and attached again in
// the middle of its calls.
func checkAttachedAgain(vm VM) error {
	return sampleAtRandom(vm, newSession(vm, queue.Options{}), 10, true)
}

// sampleAtRandom takes a sample at every third stop, and drains the queue once in
// drainEvery stops.
func sampleAtRandom(vm VM, s *session, drainEvery int, attachAgain bool) error {
	r := rand.New(rand.NewPCG(7, 1))
	err := run(vm, wander(7, 10*stops), func(g *guest, w managed.Walker) error {
		s.count(g, w)
		if attachAgain && r.IntN(30) == 0 {
			s.attachAgain()
		}
		if r.IntN(drainEvery) == 0 {
			s.drain()
		}
		if r.IntN(3) > 0 {
			return s.err
		}
		return s.sample(g, w)
	})
	if err != nil {
		return err
	}
	return s.finish()
}
