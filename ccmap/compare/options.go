package compare

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Weight is the counter by which profiles are compared.
type Weight uint8

const (
	// ByTime is the default: by the weights, which are CPU time unless the profiles
	// have another [ccmap.Unit]. It is the only choice that is right for profiles
	// whose sampling intervals differ or changed.
	ByTime Weight = iota
	BySamples
	// ByActivations compares calls seen. They are a lower bound where
	// [Profile.ActivationsExact] is false.
	ByActivations
)

var weightNames = [...]string{ByTime: "time", BySamples: "samples", ByActivations: "activations"}

// String returns "time", "samples" or "activations".
func (w Weight) String() string {
	if int(w) < len(weightNames) {
		return weightNames[w]
	}
	return fmt.Sprintf("Weight(%d)", uint8(w))
}

// MarshalText returns the text of [Weight.String].
func (w Weight) MarshalText() ([]byte, error) {
	if int(w) >= len(weightNames) {
		return nil, fmt.Errorf("encode weight: %v is not a weight", w)
	}
	return []byte(w.String()), nil
}

// UnmarshalText accepts what [Weight.MarshalText] returns.
func (w *Weight) UnmarshalText(text []byte) error {
	for i, name := range weightNames {
		if name == string(text) {
			*w = Weight(i)
			return nil
		}
	}
	return fmt.Errorf("decode weight: %q is not time, samples or activations", text)
}

// of returns the value that w selects. Counters are never negative.
func (w Weight) of(c ccmap.Counters) uint64 {
	switch w {
	case BySamples:
		return uint64(c.Samples)
	case ByActivations:
		return uint64(c.Activations)
	}
	return uint64(c.Time)
}

// things returns how many samples or calls the value that w selects is made of. 0
// where there is weight without samples, which foreign formats may hold.
func (w Weight) things(c ccmap.Counters) uint64 {
	if w == ByActivations {
		return uint64(c.Activations)
	}
	return uint64(c.Samples)
}

// inclusive reports whether a node's value includes its descendants'. A call
// counts only for the paths that end at it.
func (w Weight) inclusive() bool { return w != ByActivations }

// DefaultTau is the τ of hot-edge coverage of Zhuang et al. (PLDI 2006).
const DefaultTau = 0.1

// DefaultTolerance is for comparing runs of one program. Nine runs of a server under
// load, of 600 to 7,400 samples at two intervals, differed by up to 0.9 points
// more than noise explains, in 36 pairs; runs of four other workloads by none.
const DefaultTolerance = 3.0

// Options of a comparison. The zero value is useful.
type Options struct {
	Weight Weight  // ByTime if not set
	Tau    float64 // an edge is hot from Tau · the hottest edge's weight, 0 < Tau ≤ 1; 0: [DefaultTau]
	Seed   uint64  // of what is left to chance, with what is in the profiles; equal seeds give equal results

	// Tolerance is by how many points the overlap of contexts (of edges, where
	// contexts were pruned) may fall short of what noise explains in profiles that
	// are still called the same, 0 to 100.
	// Two runs of one program differ by a little more than noise: choose
	// [DefaultTolerance] unless you know by how much yours do.
	Tolerance float64

	// AnyUnit compares profiles of different units, too, for example CPU time with
	// the instructions of an exact profile. Without it they are refused.
	AnyUnit bool

	// Absorb says which methods count for their callers, together with all they
	// call; nil: none. It serves to compare profiles of which one does not see
	// everything: runtime/pprof has no frames of the kernel. A stack whose
	// outermost method is absorbed does not count.
	Absorb func(ccmap.Method) bool
}

// checked returns the options with their defaults, or why they make no sense.
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
	if int(o.Weight) >= len(weightNames) {
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
