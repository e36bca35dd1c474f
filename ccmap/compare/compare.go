package compare

import (
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// ErrEmpty says that a profile has no weight of the kind asked for. It may have
// others: the error that wraps it names them.
var ErrEmpty = errors.New("nothing to compare")

// Compare compares two profiles. It takes O(n log n) time and O(n) space for n
// nodes in both. The snapshots may be the same one.
//
// Compare leaves out samples that only one of the profiles can have, however the program behaves (see
// [LeftOut]). It does not if one of them was pruned, or if the options name methods to absorb.
//
// The error wraps [ErrEmpty] or, where the profiles measure different things,
// [ccmap.ErrUnlike], or says which option makes no sense.
func Compare(a, b *ccmap.Snapshot, o Options) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, fmt.Errorf("compare profiles: %w", err)
	}
	var left []LeftOut
	if o.Absorb == nil {
		a, b, left = seenByBoth(a.WithoutLabels(), b.WithoutLabels(), o.Weight)
	}
	t, err := lay(a, b, o)
	if err != nil {
		return Result{}, fmt.Errorf("compare profiles: %w", err)
	}
	t.sort()
	r := t.result(o)
	r.LeftOut = left
	return r, nil
}

// tries are two profiles in one trie.
type tries struct {
	*union
	compressed
	paths
	a, b   side
	weight Weight
	cutAt  int // frames of a stack; 0: none was cut
}

// lay places both profiles in one trie.
func lay(a, b *ccmap.Snapshot, o Options) (*tries, error) {
	if err := o.checkUnits(a.Meta().Unit, b.Meta().Unit); err != nil {
		return nil, err
	}
	a, b, cutAt := cutAlike(a.WithoutLabels(), b.WithoutLabels())
	t := &tries{union: newUnion(a.Len() + b.Len()), weight: o.Weight, cutAt: cutAt}
	t.oneKernel, t.flatKernel = namesSyscalls(a) != namesSyscalls(b), nestsKernel(a) != nestsKernel(b)
	var err error
	if t.a, err = t.place(a, o); err != nil {
		return nil, fmt.Errorf("first profile: %w", err)
	}
	if t.b, err = t.place(b, o); err != nil {
		return nil, fmt.Errorf("second profile: %w", err)
	}
	t.compress()
	return t, nil
}

// compress finds the compressed paths, after all profiles are placed.
func (t *tries) compress() {
	of := make([]uint32, t.len())
	t.a.collect(of, t.weight)
	t.b.collect(of, t.weight)
	t.compressed = t.compressPaths(of)
	for _, s := range []side{t.a, t.b} {
		for i, c := range s.counted {
			s.counted[i].at = of[c.at]
		}
	}
}

// sort finds the paths of counters.
func (t *tries) sort() {
	t.paths = newPaths(t.union, sortPaths(t.union), t.compressedOf, len(t.above))
}

func (t *tries) result(o Options) Result {
	c := t.newCounts()
	t.countValues(c)
	sums, overlaps := t.measure(c)
	r := Result{
		Weight:     o.Weight,
		A:          t.describe(t.a),
		B:          t.describe(t.b),
		Pearson:    pearson(sums.methods),
		Spearman:   spearman(sums.methods),
		Coverage:   cover(sums.edges, o.Tau),
		UnionNodes: t.len() - 1,
		CutAt:      t.cutAt,
	}
	r.Methods, r.Edges, r.Contexts = overlaps.methods.result(), overlaps.edges.result(), overlaps.contexts.result()
	t.judge(&r, c, o)
	return r
}

func (t *tries) describe(s side) Profile {
	meta := s.Meta()
	p := Profile{
		Samples:          s.Total().Samples,
		Independent:      s.Total().Samples,
		Weight:           int64(t.weight.of(s.Total())),
		Pruned:           s.prunedPercent(t.weight),
		Start:            meta.Start,
		Duration:         meta.Duration,
		ActivationsExact: s.ActivationsExact(),
	}
	if s.independent < float64(p.Samples) {
		p.Independent = int64(s.independent)
	}
	for i, change := range meta.Interval {
		if i == 0 {
			p.ShortestInterval = change.Interval
		}
		p.ShortestInterval = min(p.ShortestInterval, change.Interval)
		p.LongestInterval = max(p.LongestInterval, change.Interval)
	}
	return p
}

// Weight selects the counter that profiles are compared by.
type Weight uint8

const (
	// ByTime is the default. It compares weights, which are CPU time unless the profiles
	// have another [ccmap.Unit]. It is the only right choice for profiles whose sampling
	// intervals differ or changed.
	ByTime Weight = iota
	BySamples
	// ByActivations compares calls seen. They are a lower bound where
	// [Profile.ActivationsExact] is false.
	ByActivations
)

// weights are the counters that the weights select.
var weights = [...]ccmap.Counter{
	ByTime: ccmap.CounterTime, BySamples: ccmap.CounterSamples, ByActivations: ccmap.CounterActivations,
}

// String returns "time", "samples" or "activations".
func (w Weight) String() string {
	if int(w) < len(weights) {
		return weights[w].String()
	}
	return fmt.Sprintf("Weight(%d)", uint8(w))
}

// MarshalText returns the text of [Weight.String].
func (w Weight) MarshalText() ([]byte, error) {
	if int(w) >= len(weights) {
		return nil, fmt.Errorf("encode weight: %v is not a weight", w)
	}
	return []byte(w.String()), nil
}

// UnmarshalText accepts the output of [Weight.MarshalText].
func (w *Weight) UnmarshalText(text []byte) error {
	for i, counter := range weights {
		if counter.String() == string(text) {
			*w = Weight(i)
			return nil
		}
	}
	return fmt.Errorf("decode weight: %q is not time, samples or activations", text)
}

// of returns the value that w selects. Counters are never negative.
func (w Weight) of(c ccmap.Counters) uint64 { return uint64(*weights[w].Of(&c)) }

// observations returns the number of samples or calls that make up the value that w
// selects. It is 0 for weight without samples, which foreign formats may hold.
func (w Weight) observations(c ccmap.Counters) uint64 {
	if w.inclusive() {
		return uint64(c.Samples)
	}
	return w.of(c)
}

// inclusive reports whether a node's value includes its descendants' values. A call
// counts only for the paths that end at it.
func (w Weight) inclusive() bool { return weights[w].Sampled() }

// DefaultTau is the τ of hot-edge coverage of Zhuang et al. (PLDI 2006).
const DefaultTau = 0.1

// DefaultTolerance is for comparing runs of one program. Nine runs of a server
// under load, of 600 to 7,400 samples at two intervals, made 36 pairs: they
// differed by up to 0.9 points more than noise explains. Runs of four other
// workloads did not.
const DefaultTolerance = 3.0

// Options of a comparison. The zero value is useful.
type Options struct {
	Weight Weight  // ByTime if not set
	Tau    float64 // an edge is hot from Tau · the hottest edge's weight, 0 < Tau ≤ 1; 0: [DefaultTau]
	Seed   uint64  // of all random choices, together with the counts in the profiles; equal seeds give equal results

	// Tolerance is how many points more than noise explains the overlap of contexts (of
	// edges, where contexts were pruned) may be short of 100 for the verdict [Same], 0 to
	// 100. Two runs of one program differ by a little more than noise: choose
	// [DefaultTolerance] unless you know the figure of your program.
	Tolerance float64

	// AnyUnit compares profiles of different units, too, for example CPU time with
	// the instructions of an exact profile. Without it they are refused.
	AnyUnit bool

	// Absorb selects methods that count for their callers, together with all their
	// callees; nil: none. It serves to compare profiles if one does not see everything:
	// another sampler, for example, has no frames of an interpreter. A stack whose outermost
	// method is absorbed does not count.
	Absorb func(ccmap.Method) bool
}

// checked returns the options with their defaults, or an error that names a bad one.
func (o Options) checked() (Options, error) {
	if o.Tau == 0 {
		o.Tau = DefaultTau
	}
	if !(o.Tau > 0 && o.Tau <= 1) {
		return o, fmt.Errorf("tau is %v: choose one over 0 and up to 1", o.Tau)
	}
	if !(o.Tolerance >= 0 && o.Tolerance <= 100) {
		return o, fmt.Errorf("tolerance is %v: choose one from 0 to 100 points", o.Tolerance)
	}
	if int(o.Weight) >= len(weights) {
		return o, fmt.Errorf("%v is not a weight", o.Weight)
	}
	return o, nil
}

// checkUnits refuses profiles whose weights have different units. A profile that
// only counts samples is like any other by samples. Activations are calls in every
// unit.
func (o Options) checkUnits(a, b ccmap.Unit) error {
	counted := a == ccmap.SampleCount || b == ccmap.SampleCount
	if o.AnyUnit || o.Weight == ByActivations || o.Weight == BySamples && counted {
		return nil
	}
	return ccmap.CheckLike(a, b)
}
