package main

import (
	"fmt"

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
