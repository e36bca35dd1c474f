package main

import (
	"fmt"
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// truth is the agreement of a sampled profile with the exact one of the same program, by
// one weight. Figures are in percent unless noted.
type truth struct {
	samples      float64
	observations float64 // samples by time; by activations the ones that samples have found
	pearson      float64 // −1 to 1
	spearman     float64 // −1 to 1

	methods, edges, contexts compare.Overlap // with the floors of the sampled profile
	tree                     float64         // overlap of the calling-context trees

	hot, warm         float64 // edges of the exact profile that the sampled one has, τ = 0.1 and 0.01
	hotTree, warmTree float64 // the same for stacks of the calling-context tree
	hotEdges          int     // of the exact profile
}

// hold compares a sampled profile with the exact one: by time, CPU time with
// instructions. The sampler cannot see the leaves of the guest that absorb names. They
// count for their callers in both profiles.
func hold(sampled, exact *ccmap.Snapshot, w compare.Weight, absorb func(ccmap.Method) bool) (truth, error) {
	c, err := compare.Compare(sampled, exact, compare.Options{Weight: w, AnyUnit: true, Absorb: absorb})
	if err != nil {
		return truth{}, fmt.Errorf("hold against the exact profile: %w", err)
	}
	t := newTree(sampled, exact, w, absorb)
	return truth{
		samples:      float64(c.A.Samples),
		observations: observationsOf(sampled, w),
		pearson:      c.Pearson, spearman: c.Spearman,
		methods: c.Methods, edges: c.Edges, contexts: c.Contexts, tree: t.overlap(),
		hot: c.Coverage.BA, hotEdges: c.Coverage.HotB,
		hotTree: t.coverage(compare.DefaultTau), warmTree: t.coverage(warmTau),
	}, nil
}

// holdWarm is hold with the coverage of warm edges, too.
func holdWarm(sampled, exact *ccmap.Snapshot, w compare.Weight, absorb func(ccmap.Method) bool) (truth, error) {
	t, err := hold(sampled, exact, w, absorb)
	if err != nil {
		return t, err
	}
	c, err := compare.Compare(sampled, exact, compare.Options{Weight: w, AnyUnit: true, Absorb: absorb, Tau: warmTau})
	t.warm = c.Coverage.BA
	return t, err
}

// observationsOf returns the number of a profile's samples or calls.
func observationsOf(s *ccmap.Snapshot, w compare.Weight) float64 {
	if w == compare.ByActivations {
		return float64(s.Total().Activations)
	}
	return float64(s.Total().Samples)
}

// tree compares two profiles as calling-context trees, as others do (Zhuang et al., PLDI
// 2006): it has one counter for each stack from its outermost frame on, with the counts
// of the innermost frame alone. It has no paths that begin farther in, unlike the Call
// Context Map.
type tree struct {
	names    *ccmap.Map
	weight   compare.Weight
	absorb   func(ccmap.Method) bool // nil: absorbs nothing
	counters []counter               // by node of names
	all      counter                 // sums
}

// counter is each profile's count at a node.
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

// place adds a profile's counts. Positions count for their methods. Absorbed methods,
// with all below them, count for their callers.
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

// value returns a node's count. Calls of absorbed methods do not count.
func (t *tree) value(c ccmap.Counters, hidden bool) float64 {
	switch {
	case t.weight != compare.ByActivations:
		return float64(c.Time)
	case hidden:
		return 0
	}
	return float64(c.Activations)
}

// overlap returns the sum of the smaller shares, in percent; NaN if one profile is empty.
func (t *tree) overlap() float64 {
	var sum float64
	for _, c := range t.counters {
		sum += min(c.sampled/t.all.sampled, c.exact/t.all.exact)
	}
	return 100 * sum
}

// coverage returns the part of the truly hot stacks that the sampled profile has, in
// percent. A stack is hot if it weighs at least tau times the hottest.
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
