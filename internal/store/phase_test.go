package store

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// doing returns a period of a program that does one of several things: so many samples of its stacks, at random.
func doing(thing int, samples int64, seed uint64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	rnd := rand.New(rand.NewPCG(seed, uint64(thing)))
	method := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	for range samples {
		leaf := rnd.IntN(6)
		at := m.Child(0, ccmap.NoOffset, method("main"))
		at = m.Child(at, 1, method(fmt.Sprint("thing", thing)))
		at = m.Child(at, uint32(leaf), method(fmt.Sprint("part", leaf)))
		m.Add(at, ccmap.Counters{Samples: 1, Time: 1e7})
	}
	m.Meta().Known, m.Meta().Repeated = uint64(samples), 0
	m.Meta().Settled = ccmap.Settled{Edges: 99, Samples: samples}
	return m.Snapshot()
}

// thingOf returns what a period's program did.
func thingOf(s *ccmap.Snapshot) (thing int) {
	for n := range s.Nodes() {
		if n.Method != ccmap.NoMethod {
			if text, ok := strings.CutPrefix(s.Names().At(n.Method).Name, "thing"); ok {
				fmt.Sscan(text, &thing)
			}
		}
	}
	return thing
}

// phaseModel is what the page says of phases.
type phaseModel struct {
	things  []int // of the phases
	current int   // that is offered
	unlike  int
	last    map[int]int64 // samples of the last period of each phase
}

func (p *phaseModel) file(thing int, samples int64) {
	switch {
	case len(p.things) == 0, slices.Contains(p.things, thing):
	case p.unlike+1 < unlikeAll || len(p.things) == mostPhases:
		p.unlike++
		return
	}
	if !slices.Contains(p.things, thing) {
		p.things = append(p.things, thing)
	}
	p.unlike, p.current, p.last[thing] = 0, thing, samples
}

// TestPhases files periods of a program that does one thing after another, and begins runs of it. The files are those
// of the model, and the sum of all periods stays the sum of all.
func TestPhases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s, err := Open(Options{Dir: path.Join(dir, fmt.Sprint(rand.Uint64()))})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		model, sum := phaseModel{last: make(map[int]int64)}, int64(0)
		for i := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			thing, seed := rapid.IntRange(1, 3).Draw(rt, "thing"), uint64(i+1)
			switch rapid.SampledFrom([]string{"file", "file", "file", "run", "change"}).Draw(rt, "step") {
			case "file":
				samples := int64(3000 + i) // the later one wins, and each is known by its samples
				from := day.Add(time.Duration(i) * time.Hour)
				if _, err := s.File(web, from, from.Add(time.Hour), doing(thing, samples, seed)); err != nil {
					rt.Fatal(err)
				}
				sum += samples
				model.file(thing, samples)
			case "run":
				if err := s.Offer(web, doing(thing, PhaseSamples, seed)); err != nil {
					rt.Fatal(err)
				}
				if len(model.things) > 1 && slices.Contains(model.things, thing) {
					model.current = thing
				} else if len(model.things) > 1 {
					model.current = 0 // it is like none: any
				}
			case "change":
				s.Changed(web)
				model.unlike = max(model.unlike, unlikeAll-1)
			}
			checkPhases(rt, s, &model)
			if model.current == 0 && len(model.things) > 0 {
				model.current = thingOf(bestOf(rt, s))
			}
		}
		total := int64(0)
		for _, e := range s.Reader().List(Filter{}).Entries {
			if e.Kind == KindPeriod {
				m, err := s.Reader().Read(e)
				if err != nil {
					rt.Fatal(err)
				}
				total += m.Snapshot().Total().Samples
			}
		}
		if total != sum {
			rt.Errorf("periods have %d samples, filed %d", total, sum)
		}
	})
}

// bestOf returns the best profile, nil if there is none.
func bestOf(t *rapid.T, s *Store) *ccmap.Snapshot {
	for _, e := range s.Reader().List(Filter{}).Entries {
		if e.Kind == KindBest {
			m, err := s.Reader().Read(e)
			if err != nil {
				t.Fatal(err)
			}
			return m.Snapshot()
		}
	}
	return nil
}

func checkPhases(t *rapid.T, s *Store, model *phaseModel) {
	t.Helper()
	best := bestOf(t, s)
	if (best == nil) != (len(model.things) == 0) {
		t.Fatalf("a best file, of %d phases", len(model.things))
	}
	if best != nil && model.current != 0 {
		if thing, samples := thingOf(best), best.Total().Samples; thing != model.current || samples != model.last[thing] {
			t.Fatalf("the best has %d samples of thing %d, want %d of %d", samples, thing, model.last[model.current], model.current)
		}
	}
	var things []int
	for _, e := range s.Reader().List(Filter{}).Entries {
		if e.Kind != KindPhase {
			continue
		}
		m, err := s.Reader().Read(e)
		if err != nil {
			t.Fatal(err)
		}
		one := m.Snapshot()
		things = append(things, thingOf(one))
		if e.Phase != slices.Index(model.things, thingOf(one))+1 || one.Total().Samples != model.last[thingOf(one)] {
			t.Fatalf("phase %d has %d samples of thing %d; want %v", e.Phase, one.Total().Samples, thingOf(one), model.last)
		}
	}
	if want := len(model.things); len(things) != want && (want > 1 || len(things) > 0) {
		t.Fatalf("phases of %v, want %v", things, model.things)
	}
}

// Files of phases stay as long as the best file does, and go with it.
func TestPhasesAreKept(t *testing.T) {
	t.Parallel()
	for later, want := range map[string]int{"b": 2, "bc": 0} {
		s := mustOpen(t, Options{Dir: t.TempDir(), Keep: 24 * time.Hour})
		k := web
		k.Build = "a"
		for i, thing := range []int{1, 2, 2} {
			fileAt(t, s, k, day.Add(time.Duration(i)*time.Hour), doing(thing, 3000, uint64(i)))
		}
		for i, build := range later {
			k.Build = string(build)
			fileAt(t, s, k, day.Add(time.Duration(100+i)*time.Hour), doing(1, 3000, 1))
		}
		s.Retain(day.Add(200 * time.Hour))
		phases := 0
		for _, e := range s.Reader().List(Filter{Build: "a"}).Entries {
			if e.Kind == KindPhase {
				phases++
			}
		}
		if phases != want {
			t.Errorf("before builds %q: %d phases", later, phases)
		}
	}
}
