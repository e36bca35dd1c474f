package compare

import "time"

// Result of a comparison of profile A with profile B. Its JSON form is stable:
// fields may be added.
type Result struct {
	Weight Weight  `json:"weight"`
	A      Profile `json:"a"`
	B      Profile `json:"b"`

	// The overlap over three sets of counters, from coarse to fine.
	Methods  Overlap `json:"methods"`  // one counter for each method
	Edges    Overlap `json:"edges"`    // one for each caller, offset and callee
	Contexts Overlap `json:"contexts"` // the full CC-Map: one for each sub-path of a stack, the two above among them

	// Correlation of the method totals, −1 to 1, over the methods that either
	// profile holds; absent in one counts as 0 there. It is carried by the few
	// hottest methods: 0.99 beside an overlap of 67 % is no contradiction.
	// Where all methods of a profile have the same total no correlation is
	// defined: it is given as 1 if that is so in both profiles and as 0 if it
	// is so in one.
	Pearson  float64 `json:"pearson"`
	Spearman float64 `json:"spearman"` // of ranks, ties having their average

	Coverage Coverage `json:"coverage"`

	Verdict   Verdict `json:"verdict"`
	VerdictBy string  `json:"verdict_by"` // "contexts", or "edges" if contexts were pruned
	Tolerance float64 `json:"tolerance"`  // points, see [Options]
	// Families are the contexts that account for most of the difference, the
	// largest first: at most ten, none unless the verdict is [Differs], nor where
	// contexts were pruned. Then [Differences] of methods and edges says more.
	Families []Family `json:"families,omitempty"`

	// UnionNodes is the number of contexts, each a path from an outermost frame
	// to a method, in either profile.
	UnionNodes int `json:"union_nodes"`

	// CutAt is how many of the innermost frames of each stack were compared, because
	// one of the profiles has no more; 0: all.
	CutAt int `json:"cut_at,omitempty"`
}

// Profile describes one side of a comparison.
type Profile struct {
	Samples          int64         `json:"samples"`        // behind the profile; with few, read the floor first
	Independent      int64         `json:"independent"`    // samples that would say as much if they all were independent
	Weight           int64         `json:"weight"`         // by Result.Weight: samples, activations, or in the profile's unit, for example ns
	Pruned           float64       `json:"pruned"`         // percent of the weight, whose contexts were pruned: it counts for kept callers
	Start            time.Time     `json:"start,omitzero"` // of sampling, UTC; zero where unknown
	Duration         time.Duration `json:"duration_ns"`    // wall time sampled, ns; 0 where unknown
	ActivationsExact bool          `json:"activations_exact"`

	// The sampling intervals that were set, ns of CPU time; 0 where unknown.
	// Unless all four of a comparison are equal, only [ByTime] is fair.
	ShortestInterval time.Duration `json:"shortest_interval_ns"`
	LongestInterval  time.Duration `json:"longest_interval_ns"`
}

// Overlap is the agreement of two profiles over one set of counters. All
// figures but Counters are percentages, 0 to 100.
type Overlap struct {
	// Percent is exact but for the rounding of a float64: 100 if and only if
	// all weights are equal (to within that rounding), the same in both
	// directions. Where neither profile has a counter of the kind they agree,
	// and it is 100; where only one has, it is 0.
	Percent float64 `json:"percent"`

	// Floor is what noise alone makes of this overlap: the lower of FloorA and
	// FloorB, for the noisier profile limits what the two can agree on.
	// FloorA is what two random halves of profile A overlap, which stand for
	// its samples taken alternately, repetitions of an activation together. The
	// halves have half the samples, so two whole profiles of one behaviour overlap
	// more than their floor: see Expected. It is the mean of eight splits, of fewer
	// the more samples there are, of one if over 5,000 are independent. Another seed
	// moves a floor by about 0.6 points at 50 samples, 0.3 at 400, 0.2 from 1,000 on.
	Floor  float64 `json:"floor"`
	FloorA float64 `json:"floor_a"`
	FloorB float64 `json:"floor_b"`

	// Expected is what two profiles of one behaviour would overlap if they had the
	// sizes of these, and Deviation by how much that varies, in points: mean and
	// standard deviation of eight draws from both profiles' samples together, or of
	// four if both profiles have 10,000 independent samples.
	Expected  float64 `json:"expected"`
	Deviation float64 `json:"deviation"`
	// Interval is by how many points an overlap of one behaviour falls short of
	// Expected once in a hundred times: some three to five deviations, as there are
	// few draws. The verdict is by it.
	Interval float64 `json:"interval"`
	// Unexplained is by how many points Percent falls short of what noise makes of
	// an overlap in 99 of 100 comparisons of one behaviour with itself.
	Unexplained float64 `json:"unexplained"`

	// Counters is how many counters were compared: those that at least one of
	// the profiles has.
	Counters uint64 `json:"counters"`
}

// Coverage says how many of one profile's hot edges the other has at all. An
// edge is hot if its weight is at least Tau · that of the hottest edge.
type Coverage struct {
	Tau  float64 `json:"tau"`   // over 0, up to 1
	HotA int     `json:"hot_a"` // hot edges of A
	HotB int     `json:"hot_b"`
	// AB is the percentage of A's hot edges that B has, BA the reverse; 100
	// where there are none.
	AB float64 `json:"ab"`
	BA float64 `json:"ba"`
}
