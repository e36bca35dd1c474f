package compare

import (
	"fmt"
	"time"
)

// Result of a comparison of profile A with profile B.
type Result struct {
	Weight Weight
	A      Profile
	B      Profile

	// The overlap over three sets of counters, from coarse to fine.
	Methods  Overlap // one counter for each method
	Edges    Overlap // one for each caller, offset and callee
	Contexts Overlap // the full CC-Map: one for each sub-path of a stack, the two above among them

	// Correlation of the method totals, −1 to 1, over the methods of either profile; a
	// method that one lacks counts as 0 there. The few hottest methods decide it: 0.99
	// beside an overlap of 67 % is no contradiction. If all methods of a profile have
	// the same total, no correlation is defined: it is 1 if both profiles are like that,
	// and 0 if one is.
	Pearson  float64
	Spearman float64 // of ranks; ties have their average

	Coverage Coverage

	Verdict   Verdict
	VerdictBy string  // "contexts", or "edges" if contexts were pruned
	Tolerance float64 // points, see [Options]
	// Families are the contexts that account for most of the difference, the largest
	// first, at most ten. They are empty unless the verdict is [Differs], and empty where
	// contexts were pruned. Then [Differences] of methods and edges says more.
	Families []Family

	// UnionNodes is the number of contexts, each a path from an outermost frame
	// to a method, in either profile.
	UnionNodes int

	// LeftOut lists the things that only one of the profiles can have, and that were left out of the other: a
	// profile of runtime/pprof, for example, has no time in the kernel.
	LeftOut []LeftOut

	// CutAt is how many of the innermost frames of each stack were compared, because
	// one of the profiles has no more; 0: all.
	CutAt int
}

// Profile describes one side of a comparison.
type Profile struct {
	Samples          int64         // of the profile; if there are few, read the floor first
	Independent      int64         // the effective sample size: as many independent samples would say as much
	Weight           int64         // by Result.Weight: samples, activations, or in the profile's unit, for example ns
	Pruned           float64       // percent of the weight whose contexts were pruned: it counts for kept callers
	Start            time.Time     // of sampling, UTC; zero where unknown
	Duration         time.Duration // wall time sampled, ns; 0 where unknown
	ActivationsExact bool

	// The sampling intervals that were set, ns of CPU time; 0 where unknown.
	// Unless all four of a comparison are equal, only [ByTime] is fair.
	ShortestInterval time.Duration
	LongestInterval  time.Duration
}

// Overlap is the agreement of two profiles over one set of counters. All
// figures but Counters are percentages, 0 to 100.
type Overlap struct {
	// Percent is exact except for the rounding of a float64: 100 if and only if all weights
	// are equal (to within that rounding), and the same in both directions. If neither
	// profile has a counter of the kind, it is 100; if only one has, it is 0.
	Percent float64

	// Floor is the lower of FloorA and FloorB, as the noisier profile limits the overlap.
	// FloorA is the overlap of two random halves of profile A. They stand for its samples
	// taken alternately; repetitions of an activation stay together. The halves have half
	// the samples, so two whole profiles of one behaviour overlap more than their floor:
	// see Expected. A floor is the mean of eight splits, of fewer if there are more
	// samples, of one if over 5,000 are independent. Another seed moves a floor by about
	// 0.6 points at 50 samples, 0.3 at 400, 0.2 from 1,000 on.
	Floor  float64
	FloorA float64
	FloorB float64

	// Expected is the overlap of two profiles of one behaviour with the sizes of these.
	// Deviation is how much it varies, in points. They are mean and standard deviation of
	// eight draws from both profiles' samples together, or of four if both profiles have
	// 10,000 independent samples.
	Expected  float64
	Deviation float64
	// Interval is how many points below Expected an overlap of one behaviour is once in a
	// hundred times: three to five deviations, as there are few draws. The verdict uses
	// it.
	Interval float64
	// Unexplained is how many points Percent is below Expected − Interval, which 99 of
	// 100 comparisons of one behaviour with itself reach.
	Unexplained float64

	// Counters is how many counters were compared: all that at least one of the profiles
	// has.
	Counters uint64
}

// Coverage says how many of one profile's hot edges the other has at all. An edge is
// hot if its weight is at least Tau · the weight of the hottest edge.
type Coverage struct {
	Tau  float64 // over 0, up to 1
	HotA int     // hot edges of A
	HotB int
	// AB is the percentage of A's hot edges that B has, BA the reverse; 100
	// if there are no hot edges.
	AB float64
	BA float64
}

// Verdict is the result of a comparison in one word.
type Verdict uint8

const (
	// TooFew says that two profiles of these sizes could not show whether they
	// differ.
	TooFew Verdict = iota
	// Same says that noise, and the tolerance, explain how far they differ.
	Same
	// Differs says that noise and the tolerance do not explain it.
	Differs
)

var verdicts = [...]string{TooFew: "too few samples to tell", Same: "same within noise", Differs: "differs"}

// String returns "too few samples to tell", "same within noise" or "differs".
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// judge adds floors, noise and the verdict to a result. It overwrites c.
func (t *tries) judge(r *Result, c *counts, o Options) {
	floorA, floorB := t.floor(t.a, c, o.Seed), t.floor(t.b, c, o.Seed)
	r.Methods.setFloors(floorA.methods, floorB.methods)
	r.Edges.setFloors(floorA.edges, floorB.edges)
	r.Contexts.setFloors(floorA.contexts, floorB.contexts)
	same := t.noises(c, o.Seed)
	r.Methods.setNoise(same.methods)
	r.Edges.setNoise(same.edges)
	r.Contexts.setNoise(same.contexts)
	r.Tolerance = o.Tolerance
	r.decide()
	if r.Verdict == Differs && r.VerdictBy == byContexts {
		r.Families = t.families(c)
	}
}

func (o *Overlap) setFloors(a, b float64) {
	o.FloorA, o.FloorB = a, b
	o.Floor = min(o.FloorA, o.FloorB)
}

func (o *Overlap) setNoise(n noise) {
	o.Expected, o.Deviation, o.Interval = n.mean, n.deviation, n.mean-n.least()
	o.Unexplained = max(0, n.least()-o.Percent)
}

// Requirements of a verdict. With a hundred independent samples the share of a context
// of 10 % is typically 3 points off. If noise alone reduces the overlap to less than
// half, or makes it uncertain by some 10 points, ordinary differences do not show.
const (
	leastIndependent = 100
	leastExpected    = 50.0
	mostDeviation    = 3.0
)

// Decisive returns the overlap that decides the verdict. The overlap of contexts is
// the finest: methods and edges are among its counters. Where contexts were pruned
// it is the overlap of edges, which lost nothing. Two profiles of one behaviour
// differed by 2 points of contexts more than noise explains with 20 % pruned, and
// by 23 with 60 %.
func (r *Result) Decisive() Overlap {
	if r.VerdictBy == byEdges {
		return r.Edges
	}
	return r.Contexts
}

// Values of VerdictBy.
const (
	byContexts = "contexts"
	byEdges    = "edges"
)

func (r *Result) decide() {
	r.VerdictBy = byContexts
	if r.A.Pruned > 0 || r.B.Pruned > 0 {
		r.VerdictBy = byEdges
	}
	o := r.Decisive()
	switch {
	case min(r.A.Independent, r.B.Independent) < leastIndependent:
		r.Verdict = TooFew
	case o.Unexplained > r.Tolerance:
		r.Verdict = Differs
	case o.Expected < leastExpected || o.Deviation > mostDeviation:
		r.Verdict = TooFew
	default:
		r.Verdict = Same
	}
}
