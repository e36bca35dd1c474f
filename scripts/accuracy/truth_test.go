package main

import (
	"math"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// called returns a profile of main.main that calls two methods, with numbers of calls and
// times.
func called(a, b ccmap.Counters) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Seed: 1})
	method := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	top := m.Child(m.Root(), ccmap.NoOffset, method("main.main"))
	for name, c := range map[string]ccmap.Counters{"main.a": a, "main.b": b} {
		n := m.Child(top, 1, method(name))
		m.Add(n, ccmap.Counters{Activations: c.Activations})
		m.Add(m.Child(n, 3, ccmap.NoMethod), ccmap.Counters{Samples: c.Samples, Time: c.Time})
	}
	return m.Snapshot()
}

func TestHold(t *testing.T) {
	t.Parallel()
	exact := called(ccmap.Counters{Samples: 75, Time: 300, Activations: 75}, ccmap.Counters{Samples: 25, Time: 100, Activations: 25})
	sampled := called(ccmap.Counters{Samples: 5, Time: 50, Activations: 1}, ccmap.Counters{Samples: 5, Time: 50, Activations: 3})
	for _, c := range []struct {
		weight       compare.Weight
		observations float64
		tree         float64
	}{
		{compare.ByTime, 10, 75},
		{compare.ByActivations, 4, 50},
	} {
		got, err := holdWarm(sampled, exact, c.weight, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.samples != 10 || got.observations != c.observations || math.Abs(got.tree-c.tree) > 1e-9 {
			t.Errorf("by %v: %v samples, %v observations, trees overlap by %v, want 10, %v, %v", c.weight, got.samples, got.observations, got.tree, c.observations, c.tree)
		}
		if got.hot != 100 || got.warm != 100 || got.hotTree != 100 || got.warmTree != 100 || got.hotEdges != 2 {
			t.Errorf("by %v: coverage %+v", c.weight, got)
		}
	}
}

// Absorbed methods count for their callers, their calls do not count, and a profile
// without a truly hot stack does not cover it.
func TestTree(t *testing.T) {
	t.Parallel()
	exact := called(ccmap.Counters{Time: 300, Activations: 75}, ccmap.Counters{Time: 100, Activations: 25})
	sampled := called(ccmap.Counters{Time: 50, Activations: 4}, ccmap.Counters{})
	notA := func(m ccmap.Method) bool { return m.Name == "main.a" }
	if got := newTree(sampled, exact, compare.ByTime, notA).overlap(); math.Abs(got-75) > 1e-9 {
		t.Errorf("main.a absorbed: overlap %v, want 75", got)
	}
	calls := newTree(sampled, exact, compare.ByActivations, nil)
	if got := calls.coverage(0.1); got != 50 {
		t.Errorf("%v %% of the hot stacks, want 50", got)
	}
	if got := calls.coverage(0.5); got != 100 {
		t.Errorf("%v %% of the hottest stack, want 100", got)
	}
	if got := newTree(called(ccmap.Counters{}, ccmap.Counters{}), exact, compare.ByTime, nil).overlap(); !math.IsNaN(got) {
		t.Errorf("overlap of nothing: %v, want none", got)
	}
}
