package managedtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// checkSlots checks that each activation has a slot and no two have the same.
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

// checkNew checks the shortest story: an activation is sampled twice, returns, and
// is called again from the same place.
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

// checkSamples takes samples now and then, and folds them: the map has the
// contexts that were on the stack, with as many activations as were seen.
func checkSamples(vm VM) error {
	return sampleAtRandom(vm, newSession(vm, queue.Options{}), 10, false)
}

// checkDrops does so with rings that are full again and again.
func checkDrops(vm VM) error {
	return sampleAtRandom(vm, newSession(vm, queue.Options{RingWords: 128}), 100, false)
}

// checkAttachedAgain does so with a thread that is detached and attached again, in
// the middle of its calls.
func checkAttachedAgain(vm VM) error {
	return sampleAtRandom(vm, newSession(vm, queue.Options{}), 10, true)
}

// sampleAtRandom takes a sample at every third stop, and drains the queue once in
// so many stops.
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
