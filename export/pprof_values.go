package export

import (
	"errors"
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// valueChoice says which value of a sample is which counter.
type valueChoice struct {
	samples, time, activations int   // index; noValue where there is none
	scale                      int64 // ns of one unit of time; 0 where it is no time
}

const noValue = -1

// nanoseconds of the units of time that profiles use.
var nanoseconds = map[string]int64{
	timeUnit:       1,
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
func chooseValues(p *profile.Profile) valueChoice {
	v := valueChoice{samples: noValue, time: len(p.SampleType) - 1, activations: noValue}
	byDefault, byTime := noValue, noValue
	for i, t := range p.SampleType {
		if t.Type == p.DefaultSampleType {
			byDefault = i
		}
		if nanoseconds[t.Unit] != 0 {
			byTime = i
		}
		if t.Type == activationsType && t.Unit == countUnit {
			v.activations = i
		}
	}
	switch {
	case byDefault != noValue && (p.SampleType[byDefault].Unit != countUnit || byTime == noValue):
		v.time = byDefault
	case byTime != noValue:
		v.time = byTime
	}
	for i := 0; i <= v.time; i++ {
		if p.SampleType[i].Unit == countUnit {
			v.samples = i
		}
	}
	if v.time >= 0 {
		v.scale = nanoseconds[p.SampleType[v.time].Unit]
	}
	return v
}

// note says what time stands for where it is none.
func (v valueChoice) note(p *profile.Profile) string {
	if v.time == noValue || v.scale != 0 {
		return ""
	}
	t := p.SampleType[v.time]
	return fmt.Sprintf("time stands for %s in %s", t.Type, t.Unit)
}

func (v valueChoice) counters(values []int64) (ccmap.Counters, error) {
	at := func(i int) int64 {
		if i == noValue {
			return 0
		}
		return values[i]
	}
	scale := max(v.scale, 1)
	time := at(v.time) * scale
	if time/scale != at(v.time) {
		return ccmap.Counters{}, errors.New("more than 2⁶³-1 ns")
	}
	return ccmap.Counters{Samples: at(v.samples), Time: time, Activations: at(v.activations)}, nil
}
