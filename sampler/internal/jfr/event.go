package jfr

import (
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
)

// Units of samples that the engine takes beside those of CPU time. A recording that is read from
// a file has the same ones.
var (
	Alloc = ccmap.NewUnit(recording.Alloc.String(), recording.Alloc.Base()) // bytes that were allocated
	Lock  = ccmap.NewUnit(recording.Lock.String(), recording.Lock.Base())   // ns until a lock was there
)

// event is what the JVM records for samples of a unit.
type event struct {
	measure recording.Measure
	exact   bool // the events say what a sample weighs: others of the measure are left out
}

// eventOf returns the event of a unit that [Open] takes.
func eventOf(u ccmap.Unit, v version) event {
	switch u {
	case Alloc:
		return event{recording.Alloc, true}
	case Lock:
		return event{recording.Lock, false}
	}
	return event{recording.CPU, v.exact()}
}

// settings are those of a recording. The interval bounds the events of allocations that the JVM throttles, as a
// rate, and of locks, by the shortest wait.
func (e event) settings(interval time.Duration) string {
	ms := interval.Milliseconds()
	switch {
	case e.measure == recording.Alloc && e.exact:
		return "+jdk.ObjectAllocationInNewTLAB#enabled=true +jdk.ObjectAllocationInNewTLAB#stackTrace=true " +
			"+jdk.ObjectAllocationOutsideTLAB#enabled=true +jdk.ObjectAllocationOutsideTLAB#stackTrace=true +jdk.GCPhasePause#enabled=true +jdk.DataLoss#enabled=true"
	case e.measure == recording.Alloc:
		return fmt.Sprintf("+jdk.ObjectAllocationSample#enabled=true +jdk.ObjectAllocationSample#stackTrace=true +jdk.ObjectAllocationSample#throttle=%d/s +jdk.DataLoss#enabled=true", perSecond(interval))
	case e.measure == recording.Lock:
		return fmt.Sprintf("+jdk.JavaMonitorEnter#enabled=true +jdk.JavaMonitorEnter#stackTrace=true +jdk.JavaMonitorEnter#threshold=%[1]dms "+
			"+jdk.ThreadPark#enabled=true +jdk.ThreadPark#stackTrace=true +jdk.ThreadPark#threshold=%[1]dms +jdk.DataLoss#enabled=true", ms)
	case e.exact:
		return fmt.Sprintf("+jdk.CPUTimeSample#enabled=true +jdk.CPUTimeSample#throttle=%dms +jdk.CPUTimeSamplesLost#enabled=true +jdk.DataLoss#enabled=true", ms)
	}
	return fmt.Sprintf("+jdk.ExecutionSample#enabled=true +jdk.ExecutionSample#period=%dms +jdk.DataLoss#enabled=true", ms)
}

// throttled is the event of allocations where there are too many: the JVM picks some, and says of none what it stands
// for.
func throttled() event { return event{recording.Alloc, false} }

// perSecond is how many events there are in a second at most.
func perSecond(interval time.Duration) int64 { return int64(max(time.Second/interval, 1)) }

// of says for people what the samples are of, where it is not CPU time.
func (e event) of(interval time.Duration) string {
	switch e.measure {
	case recording.Alloc:
		return "allocations"
	case recording.Lock:
		return fmt.Sprintf("waits for locks, of %v or longer", interval)
	}
	return ""
}
