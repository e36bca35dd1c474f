package export

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// valueType is what a value of a sample counts, and its unit.
type valueType struct{ kind, unit string }

func (t valueType) proto() *profile.ValueType { return &profile.ValueType{Type: t.kind, Unit: t.unit} }

// Types of the values of our samples, in their order: samples, the weight in the
// profile's unit, activations. Types of the window are there only if the map has
// one, and types of calls that breakpoints caught only if it has burst points.
var (
	samplesType       = valueType{"samples", "count"}
	activationsType   = valueType{"activations", "count"}
	recentSamplesType = valueType{"recent_samples", "count"}
	hitsType          = valueType{"receiver_hits", "count"} // each call once, in the context that is known
	siteHitsType      = valueType{"site_hits", "count"}     // the same calls by their site, in any context
)

// weightType returns the type of the weights.
func weightType(u ccmap.Unit) valueType { return valueType{columnOf(u.Kind()), u.Base()} }

// recentWeightType returns the type of the window's weights.
func recentWeightType(u ccmap.Unit) valueType {
	if u == ccmap.CPUTime {
		return valueType{"recent_time", u.Base()}
	}
	return valueType{"recent_" + columnOf(u.Kind()), u.Base()}
}

// weightSuffix ends the name of the weights if their kind is the name of another type.
// pprof tells types by their names: of two with one name it counts the first twice.
const weightSuffix = "_weight"

// columnOf returns the name of the type for weights of a kind.
func columnOf(kind string) string {
	if isTaken(kind) {
		return kind + weightSuffix
	}
	return kind
}

// kindOf undoes columnOf. Files of earlier versions have kinds alone.
func kindOf(column string) string {
	if kind, isLonger := strings.CutSuffix(column, weightSuffix); isLonger && isTaken(kind) {
		return kind
	}
	return column
}

// isTaken reports whether a kind is the name of another type of ours, or becomes one
// without its suffixes.
func isTaken(kind string) bool {
	for strings.HasSuffix(kind, weightSuffix) {
		kind = strings.TrimSuffix(kind, weightSuffix)
	}
	return slices.ContainsFunc([]valueType{samplesType, activationsType, recentSamplesType, hitsType, siteHitsType},
		func(t valueType) bool { return t.kind == kind })
}

// Indices of the values of our samples, as far as those are always there.
const (
	ourSamples = iota
	ourWeight
	ourActivations
	ourRecentSamples // with ourRecentWeight, if there is a window
	ourRecentWeight
)

// valueChoice says which value of a sample is which counter.
type valueChoice struct {
	samples, weight, activations int   // index; noValue where there is none
	recentSamples, recentWeight  int   // of the window
	hits, siteHits               int   // of points; no counters
	scale                        int64 // by which weights are multiplied
	unit                         ccmap.Unit
}

const noValue = -1

// nanoseconds of the units of time that profiles use.
var nanoseconds = map[string]int64{
	ccmap.Nanoseconds: 1,
	"microseconds":    1e3,
	"milliseconds":    1e6,
	"seconds":         1e9,
}

// valueTypes are the sample types of a profile.
type valueTypes struct {
	list      []valueType
	byDefault string // kind of the default; empty where none is named
	ours      bool   // as pprofBuilder orders them
}

// choose picks the values. The weight is the type of the kind that is asked for.
// Otherwise it is the second of our order or, in other profiles, the type that
// 'go tool pprof' shows: the default, or the last. Samples are the nearest count at or before the weight.
// So a CPU profile gives samples/count and cpu/nanoseconds, a mutex profile
// contentions and delay, and a heap profile inuse_objects and inuse_space.
func (t valueTypes) choose(asked string) (valueChoice, error) {
	v := valueChoice{
		samples: noValue, activations: slices.Index(t.list, activationsType),
		recentSamples: noValue, recentWeight: noValue,
		hits: slices.Index(t.list, hitsType), siteHits: slices.Index(t.list, siteHitsType),
		scale: 1,
	}
	var err error
	if v.weight, err = t.weight(asked); err != nil || v.weight == noValue {
		return v, err
	}
	for i := 0; i <= v.weight; i++ {
		if t.list[i].unit == samplesType.unit {
			v.samples = i
		}
	}
	weight := t.list[v.weight]
	if scale := nanoseconds[weight.unit]; scale != 0 && !t.inOrder() {
		v.scale, weight.unit = scale, ccmap.Nanoseconds
	}
	if t.inOrder() && v.weight == ourWeight {
		weight.kind = kindOf(weight.kind)
	}
	if v.unit, err = newUnit(strings.Clone(weight.kind), strings.Clone(firstNonEmpty(weight.unit, samplesType.unit))); err != nil {
		return v, fmt.Errorf("sample type: %w", err)
	}
	if t.inOrder() {
		v.samples, v.activations = ourSamples, ourActivations
		if len(t.list) > ourRecentWeight && t.list[ourRecentSamples] == recentSamplesType && v.weight == ourWeight {
			v.recentSamples, v.recentWeight = ourRecentSamples, ourRecentWeight
		}
	}
	return v, nil
}

// inOrder reports whether the types are those that we write.
func (t valueTypes) inOrder() bool {
	return t.ours && len(t.list) > ourActivations && t.list[ourSamples] == samplesType && t.list[ourActivations] == activationsType
}

// weight returns the index of the type that becomes the weight.
func (t valueTypes) weight(asked string) (int, error) {
	switch {
	case asked != "":
		i := t.index(asked)
		if i == noValue {
			return i, noSampleType(asked, t.kinds())
		}
		return i, nil
	case t.inOrder():
		return ourWeight, nil
	}
	if i := t.index(t.byDefault); i != noValue {
		return i, nil
	}
	return len(t.list) - 1, nil
}

func (t valueTypes) index(kind string) int {
	return slices.IndexFunc(t.list, func(t valueType) bool { return t.kind == kind })
}

func (t valueTypes) kinds() []string {
	kinds := make([]string, len(t.list))
	for i, t := range t.list {
		kinds[i] = t.kind
	}
	return kinds
}

// noSampleType returns the error of a profile that has other types than the one that
// is asked for.
func noSampleType(asked string, kinds []string) error {
	return fmt.Errorf("%w %q: it has %q", ErrSampleType, asked, kinds)
}

// counters returns what the values of a sample count, and what of it is recent.
func (v *valueChoice) counters(values []int64) (self, recent ccmap.Counters, err error) {
	weight := valueAt(values, v.weight)
	if v.scale > 1 {
		if weight *= v.scale; weight/v.scale != valueAt(values, v.weight) {
			return self, recent, errors.New("more than 2⁶³-1 ns")
		}
	}
	self = ccmap.Counters{Samples: valueAt(values, v.samples), Time: weight, Activations: valueAt(values, v.activations)}
	recent = ccmap.Counters{Samples: valueAt(values, v.recentSamples), Time: valueAt(values, v.recentWeight)}
	return self, recent, nil
}

func valueAt(values []int64, i int) int64 {
	if i == noValue {
		return 0
	}
	return values[i]
}
