package main

import (
	"fmt"
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// truth says how far a sampled profile agrees with the exact one of the same
// program, by one weight. Figures are in percent where nothing else is said.
type truth struct {
	samples  float64
	things   float64 // samples by time, activations that samples have found by activations
	pearson  float64 // −1 to 1
	spearman float64 // −1 to 1

	methods, edges, contexts compare.Overlap // with the floors of the sampled profile
	tree                     float64         // overlap of the calling-context trees

	hot, warm         float64 // edges of the exact profile that the sampled one has, τ = 0.1 and 0.01
	hotTree, warmTree float64 // the same of the stacks of the calling-context tree
	hotEdges          int     // of the exact profile
}

// hold holds a sampled profile against the exact one: by time, CPU time against
// instructions. The sampler cannot see the leaves of the guest that absorb names; they
// count for their callers in both.
func hold(sampled, exact *ccmap.Snapshot, w compare.Weight, absorb func(ccmap.Method) bool) (truth, error) {
	c, err := compare.Compare(sampled, exact, compare.Options{Weight: w, AnyUnit: true, Absorb: absorb})
	if err != nil {
		return truth{}, fmt.Errorf("hold against the exact profile: %w", err)
	}
	t := newTree(sampled, exact, w, absorb)
	return truth{
		samples: float64(c.A.Samples),
		things:  thingsOf(sampled, w),
		pearson: c.Pearson, spearman: c.Spearman,
		methods: c.Methods, edges: c.Edges, contexts: c.Contexts, tree: t.overlap(),
		hot: c.Coverage.BA, hotEdges: c.Coverage.HotB,
		hotTree: t.coverage(compare.DefaultTau), warmTree: t.coverage(warmTau),
	}, nil
}

// holdWarm is hold, with the coverage of warm edges, too.
func holdWarm(sampled, exact *ccmap.Snapshot, w compare.Weight, absorb func(ccmap.Method) bool) (truth, error) {
	t, err := hold(sampled, exact, w, absorb)
	if err != nil {
		return t, err
	}
	c, err := compare.Compare(sampled, exact, compare.Options{Weight: w, AnyUnit: true, Absorb: absorb, Tau: warmTau})
	t.warm = c.Coverage.BA
	return t, err
}

// thingsOf returns how many samples or calls a profile rests on.
func thingsOf(s *ccmap.Snapshot, w compare.Weight) float64 {
	if w == compare.ByActivations {
		return float64(s.Total().Activations)
	}
	return float64(s.Total().Samples)
}

// tree holds two profiles over each other as calling-context trees, as others
// compare them (Zhuang et al., PLDI 2006): one counter for each stack from its
// outermost frame on, which has what was counted for its innermost frame alone.
// Paths that begin farther in, of which the Call Context Map is full, do not count.
type tree struct {
	names    *ccmap.Map
	weight   compare.Weight
	absorb   func(ccmap.Method) bool // nil: nothing
	counters []counter               // by node of names
	all      counter                 // sums
}

// counter is what each profile has at a node.
type counter struct{ sampled, exact float64 }

func newTree(sampled, exact *ccmap.Snapshot, w compare.Weight, absorb func(ccmap.Method) bool) *tree {
	t := &tree{names: ccmap.New(ccmap.Options{Seed: 1}), weight: w, absorb: absorb}
	t.place(sampled, func(at *counter, v float64) { at.sampled += v })
	t.place(exact, func(at *counter, v float64) { at.exact += v })
	for _, c := range t.counters {
		t.all.sampled += c.sampled
		t.all.exact += c.exact
	}
	return t
}

// place adds what a profile counts. Positions count for their methods, and what is
// absorbed for its callers, with all below it.
func (t *tree) place(s *ccmap.Snapshot, add func(*counter, float64)) {
	placed, absorbed := make([]ccmap.NodeID, s.Len()), make([]bool, s.Len())
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		at, hidden := placed[n.Parent], absorbed[n.Parent]
		if n.Method != ccmap.NoMethod && !hidden {
			method := s.Names().At(n.Method)
			if hidden = t.absorb != nil && t.absorb(method); !hidden {
				at = t.names.Child(at, n.Offset, t.names.Names().Intern(method))
			}
		}
		placed[n.ID], absorbed[n.ID] = at, hidden
		if missing := t.names.Len() - len(t.counters); missing > 0 {
			t.counters = append(t.counters, make([]counter, missing)...)
		}
		add(&t.counters[at], t.value(n.Self, hidden))
	}
}

// value returns what a node counts. The calls of what is absorbed are no calls.
func (t *tree) value(c ccmap.Counters, hidden bool) float64 {
	switch {
	case t.weight != compare.ByActivations:
		return float64(c.Time)
	case hidden:
		return 0
	}
	return float64(c.Activations)
}

// overlap returns the sum of the smaller shares, in percent; NaN where one
// profile has nothing.
func (t *tree) overlap() float64 {
	var sum float64
	for _, c := range t.counters {
		sum += min(c.sampled/t.all.sampled, c.exact/t.all.exact)
	}
	return 100 * sum
}

// coverage returns how many of the stacks that are hot in truth the sampled
// profile has at all, in percent. One is hot that weighs at least tau times the
// hottest.
func (t *tree) coverage(tau float64) float64 {
	var hottest, hot, common float64
	for _, c := range t.counters {
		hottest = max(hottest, c.exact)
	}
	if hottest == 0 {
		return math.NaN()
	}
	for _, c := range t.counters {
		if c.exact < tau*hottest {
			continue
		}
		hot++
		if c.sampled > 0 {
			common++
		}
	}
	return 100 * common / hot
}
