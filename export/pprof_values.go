package export

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// valueType is what a value of a sample counts, and its unit.
type valueType struct{ kind, unit string }

func (t valueType) proto() *profile.ValueType { return &profile.ValueType{Type: t.kind, Unit: t.unit} }

// Types of the values of our samples, in their order. Those of the window are
// there only if the map has one, and those of calls that breakpoints caught only
// if it has burst points.
var (
	samplesType       = valueType{"samples", "count"}
	timeType          = valueType{"cpu", "nanoseconds"}
	activationsType   = valueType{"activations", "count"}
	recentSamplesType = valueType{"recent_samples", "count"}
	recentTimeType    = valueType{"recent_time", "nanoseconds"}
	hitsType          = valueType{"receiver_hits", "count"} // each call once, in the context that is known
	siteHitsType      = valueType{"site_hits", "count"}     // the same calls by their site, in any context
)

// valueChoice says which value of a sample is which counter.
type valueChoice struct {
	samples, time, activations int   // index; noValue where there is none
	recentSamples, recentTime  int   // of the window
	hits, siteHits             int   // of points; no counters
	scale                      int64 // ns of one unit of time; 0 where it is no time
}

const noValue = -1

// nanoseconds of the units of time that profiles use.
var nanoseconds = map[string]int64{
	timeType.unit:  1,
	"microseconds": 1e3,
	"milliseconds": 1e6,
	"seconds":      1e9,
}

// chooseValues picks the values by the names of their types. Time, which is what
// all views weigh by, is the default type unless that is a count, else the last
// type in a unit of time, else what pprof itself shows: the default or the last.
// Samples are the nearest count at or before it. So a CPU profile gives
// samples/count and cpu/nanoseconds, a mutex profile contentions and delay, and
// a heap profile inuse_objects and, in bytes, inuse_space.
func chooseValues(types []valueType, defaultKind string) valueChoice {
	v := valueChoice{
		samples: noValue, activations: slices.Index(types, activationsType),
		recentSamples: slices.Index(types, recentSamplesType), recentTime: slices.Index(types, recentTimeType),
		hits: slices.Index(types, hitsType), siteHits: slices.Index(types, siteHitsType),
		time: len(types) - 1,
	}
	byDefault, byTime := noValue, noValue
	for i, t := range types {
		if t.kind == defaultKind {
			byDefault = i
		}
		if nanoseconds[t.unit] != 0 && i != v.recentTime {
			byTime = i
		}
	}
	switch {
	case byDefault != noValue && (types[byDefault].unit != samplesType.unit || byTime == noValue):
		v.time = byDefault
	case byTime != noValue:
		v.time = byTime
	}
	for i := 0; i <= v.time; i++ {
		if types[i].unit == samplesType.unit {
			v.samples = i
		}
	}
	if v.time >= 0 {
		v.scale = nanoseconds[types[v.time].unit]
	}
	return v
}

// note says what time stands for where it is none.
func (v valueChoice) note(types []valueType) string {
	if v.time == noValue || v.scale != 0 {
		return ""
	}
	return fmt.Sprintf("time stands for %s in %s", types[v.time].kind, types[v.time].unit)
}

// counters returns what the values of a sample count, and what of it is recent.
func (v *valueChoice) counters(values []int64) (self, recent ccmap.Counters, err error) {
	scale := max(v.scale, 1)
	time := valueAt(values, v.time)
	if scale > 1 {
		if time *= scale; time/scale != valueAt(values, v.time) {
			return self, recent, errors.New("more than 2⁶³-1 ns")
		}
	}
	self = ccmap.Counters{Samples: valueAt(values, v.samples), Time: time, Activations: valueAt(values, v.activations)}
	recent = ccmap.Counters{Samples: valueAt(values, v.recentSamples), Time: valueAt(values, v.recentTime)}
	return self, recent, nil
}

func valueAt(values []int64, i int) int64 {
	if i == noValue {
		return 0
	}
	return values[i]
}
