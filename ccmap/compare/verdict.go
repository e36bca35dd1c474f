package compare

import "fmt"

// Verdict is what a comparison comes to.
type Verdict uint8

const (
	// TooFew says that two profiles of these sizes could not show whether they
	// differ.
	TooFew Verdict = iota
	// Same says that noise, and the tolerance, explain how far they differ.
	Same
	// Differs says that they do not.
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

// MarshalText returns the text of [Verdict.String].
func (v Verdict) MarshalText() ([]byte, error) {
	if int(v) >= len(verdicts) {
		return nil, fmt.Errorf("encode verdict: %v is not a verdict", v)
	}
	return []byte(v.String()), nil
}

// UnmarshalText accepts what [Verdict.MarshalText] returns.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, s := range verdicts {
		if s == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("decode verdict: %q is none", text)
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

// What a verdict needs at least. With a hundred independent samples a context of
// 10 % has a share that is 3 points off as a rule. Where noise alone makes the
// overlap less than half, or some 10 points uncertain, hardly a difference of the
// ordinary kind could show.
const (
	leastIndependent = 100
	leastExpected    = 50.0
	mostDeviation    = 3.0
)

// Decisive returns the overlap that the verdict is by. That of contexts is the finest:
// methods and edges are among its counters. Where contexts were pruned, it is that of
// edges, which lost nothing: with 20 % pruned, two profiles of one behaviour differed
// by 2 points of contexts more than noise explains, with 60 % by 23.
func (r *Result) Decisive() Overlap {
	if r.VerdictBy == byEdges {
		return r.Edges
	}
	return r.Contexts
}

// What a verdict may be by.
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
