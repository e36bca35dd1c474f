package query

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestPrunedPairIsPruned: the tests of pruned maps need maps that were pruned.
func TestPrunedPairIsPruned(t *testing.T) {
	t.Parallel()
	pruned := 0
	rapid.Check(t, func(t *rapid.T) {
		if _, s := profiletest.PrunedPair(t); isPruned(s) {
			pruned++
		}
	})
	if pruned == 0 {
		t.Error("no pair was pruned")
	}
}

// TestCountOfPruned: paths of one and two methods are exact, longer ones lower bounds.
// Their neighbours add up, with the unknown ones.
func TestCountOfPruned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := profiletest.PrunedPair(t)
		path := randomPath(t)
		want, got := mustCount(t, full, path), mustCount(t, pruned, path)
		if got.LowerBound {
			checkAtMost(t, "path", got.Total, want.Total)
		} else if got.Total != want.Total {
			t.Errorf("%s: %+v, want %+v", path, got.Total, want.Total)
		}
		if got.DistinctLowerBound {
			checkAtMost(t, "each sample once", got.Distinct, want.Distinct)
		} else if got.Distinct != want.Distinct {
			t.Errorf("%s, each sample once: %+v, want %+v", path, got.Distinct, want.Distinct)
		}
		if len(path) == 1 && got.Self.Samples != want.Self.Samples {
			t.Errorf("%s itself: %+v, want %+v", path, got.Self, want.Self)
		}
		if sum := sumOf(got.Callers); sum.Samples != got.Total.Samples || sum.Time != got.Total.Time {
			t.Errorf("callers of %s have %+v of %+v", path, sum, got.Total)
		}
		if sum := sumOf(got.Callees).Add(got.Self); sum.Samples != got.Total.Samples || sum.Time != got.Total.Time {
			t.Errorf("callees of %s and it itself have %+v of %+v", path, sum, got.Total)
		}
	})
}

func checkAtMost(t *rapid.T, what string, got, want ccmap.Counters) {
	if got.Samples > want.Samples || got.Time > want.Time || got.Activations > want.Activations {
		t.Errorf("%s: %+v is not a lower bound of %+v", what, got, want)
	}
}

func sumOf(list []Neighbour) ccmap.Counters {
	var sum ccmap.Counters
	for _, n := range list {
		sum = sum.Add(n.Total)
	}
	return sum
}

// TestContextsOfPruned: contexts are lower bounds. With the pruned part they are all of
// the method.
func TestContextsOfPruned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := profiletest.PrunedPair(t)
		set := Select(full.Names(), func(name string) bool { return name == "A" })
		want, got := Contexts(full, set, 2), Contexts(pruned, set, 2)
		if got.Total.Samples != want.Total.Samples || got.Total.Time != want.Total.Time {
			t.Errorf("all contexts: %+v, want %+v", got.Total, want.Total)
		}
		if !want.Pruned.IsZero() {
			t.Errorf("of a profile that was not pruned: %+v", want.Pruned)
		}
		whole := make(map[string]ccmap.Counters)
		for _, c := range want.Contexts {
			whole[chainKey(c.Method, c.Callers)] = c.Total
		}
		for _, c := range got.Contexts {
			checkAtMost(t, "context", c.Total, whole[chainKey(c.Method, c.Callers)])
		}
	})
}

// TestContextsAreSorted: readers get the same order in every run.
func TestContextsAreSorted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, s := profiletest.PrunedPair(t)
		all := Select(s.Names(), func(string) bool { return true })
		list := Contexts(s, all, 0).Contexts
		if !slices.IsSortedFunc(list, func(a, b Context) int { return compareContexts(s.Names(), a, b) }) {
			t.Errorf("not sorted: %+v", list)
		}
	})
}
