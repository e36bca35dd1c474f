package export

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// valueType is the kind of a value of a sample, and its unit.
type valueType struct{ kind, unit string }

// The values of our samples are the counters, the counters of the window if the map has
// one, and the caught calls if it has burst points.
var (
	hitsType     = valueType{"receiver_hits", countUnit} // each call once, in the context that is known
	siteHitsType = valueType{"site_hits", countUnit}     // the same calls by their site, in any context
)

// countUnit is the unit of all types but the weight.
const countUnit = "count"

// typeOf returns the type of a counter in a profile of weights with the given unit.
func typeOf(k ccmap.Counter, weight ccmap.Unit) valueType {
	u := k.Unit(weight)
	if k == ccmap.CounterTime {
		return valueType{columnOf(u.Kind()), u.Base()}
	}
	return valueType{u.Kind(), u.Base()}
}

// recentType returns the type of the same counter of the window.
func recentType(k ccmap.Counter, weight ccmap.Unit) valueType {
	t := typeOf(k, weight)
	if k == ccmap.CounterTime && weight == ccmap.CPUTime {
		t.kind = k.String()
	}
	t.kind = recentPrefix + t.kind
	return t
}

// typesOf returns the types of all counters, and of the counters of a window.
func typesOf(weight ccmap.Unit, windowed bool) []valueType {
	var types []valueType
	for k := range ccmap.NumCounters {
		types = append(types, typeOf(k, weight))
	}
	for k := range ccmap.NumCounters {
		if windowed && k.Sampled() {
			types = append(types, recentType(k, weight))
		}
	}
	return types
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
	return slices.Contains(takenKinds, kind)
}

// takenKinds are the names of the types beside the weight.
var takenKinds = func() []string {
	kinds := []string{hitsType.kind, siteHitsType.kind}
	for k := range ccmap.NumCounters {
		if k == ccmap.CounterTime {
			continue
		}
		kinds = append(kinds, k.String())
		if k.Sampled() {
			kinds = append(kinds, recentPrefix+k.String())
		}
	}
	return kinds
}()

// valueChoice says which value of a sample is which counter.
type valueChoice struct {
	self, recent   counterIndices
	hits, siteHits int   // of points; no counters
	scale          int64 // of weights
	unit           ccmap.Unit
}

// counterIndices has the index of each counter among the values, or noValue.
type counterIndices [ccmap.NumCounters]int

const noValue = -1

var noIndices = func() (c counterIndices) {
	for k := range c {
		c[k] = noValue
	}
	return c
}()

// counters returns the counters of a sample.
func (c *counterIndices) counters(values []int64) (counters ccmap.Counters) {
	for k, at := range c {
		if at != noValue {
			*ccmap.Counter(k).Of(&counters) = values[at]
		}
	}
	return counters
}

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
		self: t.counterIndices(), recent: noIndices,
		hits: slices.Index(t.list, hitsType), siteHits: slices.Index(t.list, siteHitsType),
		scale: 1,
	}
	at, err := t.weight(asked)
	if err != nil || at == noValue {
		return v, err
	}
	v.self[ccmap.CounterTime] = at
	weight := t.list[at]
	switch {
	case !t.inOrder():
		v.self[ccmap.CounterSamples] = t.countBefore(at)
		if scale := nanoseconds[weight.unit]; scale != 0 {
			v.scale, weight.unit = scale, ccmap.Nanoseconds
		}
	case at == int(ccmap.CounterTime):
		weight.kind = kindOf(weight.kind)
		v.recent = t.recentIndices()
	}
	if v.unit, err = newUnit(strings.Clone(weight.kind), strings.Clone(cmp.Or(weight.unit, countUnit))); err != nil {
		return v, fmt.Errorf("sample type: %w", err)
	}
	return v, nil
}

// inOrder reports whether the types are those that we write.
func (t valueTypes) inOrder() bool {
	return t.ours && t.has(ccmap.CounterSamples) && t.has(ccmap.CounterActivations)
}

// has reports whether a counter that is not the weight is where we write it.
func (t valueTypes) has(k ccmap.Counter) bool {
	return int(k) < len(t.list) && t.list[k] == typeOf(k, ccmap.CPUTime)
}

// counterIndices finds the counters that do not depend on the weight.
func (t valueTypes) counterIndices() counterIndices {
	indices := noIndices
	for k := range indices {
		switch k := ccmap.Counter(k); {
		case k == ccmap.CounterTime:
		case t.inOrder() && t.has(k):
			indices[k] = int(k)
		case !k.Sampled():
			indices[k] = slices.Index(t.list, typeOf(k, ccmap.CPUTime))
		}
	}
	return indices
}

// recentIndices finds the counters of the window, which lie side by side after the others.
func (t valueTypes) recentIndices() counterIndices {
	const others = int(ccmap.CounterActivations) + 1 // at least
	indices := noIndices
	at := slices.Index(t.list[others:], recentType(ccmap.CounterSamples, ccmap.CPUTime))
	if at == noValue {
		return indices
	}
	at += others
	for k := range indices {
		if ccmap.Counter(k).Sampled() && at < len(t.list) {
			indices[k] = at
			at++
		}
	}
	return indices
}

// countBefore returns the index of the last type of counts that is not after another.
func (t valueTypes) countBefore(at int) int {
	for ; at >= 0 && t.list[at].unit != countUnit; at-- {
	}
	return at
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
		return int(ccmap.CounterTime), nil
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

// counters returns the counters of a sample, and the counters of the window.
func (v *valueChoice) counters(values []int64) (self, recent ccmap.Counters, err error) {
	self, recent = v.self.counters(values), v.recent.counters(values)
	if v.scale > 1 {
		weight := self.Time
		if self.Time *= v.scale; self.Time/v.scale != weight {
			return self, recent, errors.New("more than 2⁶³-1 ns")
		}
	}
	return self, recent, nil
}

func valueAt(values []int64, i int) int64 {
	if i == noValue {
		return 0
	}
	return values[i]
}
