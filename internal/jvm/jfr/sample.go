package jfr

import (
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/tlab"
)

// Measure is what the samples of a profile count. A recording can have samples of several.
type Measure uint8

const (
	CPU    Measure = iota // CPU time, ns
	Wall                  // time, ns, whether a thread runs or not
	Native                // time in native methods of Java, ns, whether a thread runs or not
	Alloc                 // allocated bytes
	Lock                  // time until a lock was there, ns
	Count                 // samples of another event of async-profiler's, each counts one
	NumMeasures
)

var measureNames = [NumMeasures]string{"cpu", "wall", "native", "alloc", "lock", "samples"}

// String returns the measure's name, for example "cpu".
func (m Measure) String() string {
	if m < NumMeasures {
		return measureNames[m]
	}
	return "measure " + strconv.Itoa(int(m))
}

// Base returns the base unit of the measure.
func (m Measure) Base() string {
	switch m {
	case Alloc:
		return "bytes"
	case Count:
		return "count"
	}
	return "nanoseconds"
}

// Sample is an event that counts something.
type Sample struct {
	Thread Object // java.lang.Thread
	Trace  Object // jdk.types.StackTrace, for [Stack]; zero: unknown
	Key    int64  // of Trace, the same for equal stacks of a chunk
	Time   int64  // ns since 1970
	Weight int64  // in the unit of the measure
	Count  int64  // samples that it stands for
	Failed bool   // its stack could not be walked

	event Object
}

// Settings are those of the recorder that weights depend on. They hold from one chunk to the
// next. The zero Settings are those of a recording that says nothing of itself.
type Settings struct {
	Period       time.Duration // between two samples of a thread by the JDK; 0: not said
	NativePeriod time.Duration // the same in native methods
	Async        bool          // async-profiler has made the recording
	Event        string        // of async-profiler's samples: "cpu", "wall", "cache-misses"; or empty
	Interval     time.Duration // of async-profiler's samples
	WallInterval time.Duration // of its samples of all threads

	buffers tlab.Weigher // weighs allocations that the JDK tells
}

// Periods where a recording does not say them: the JDK's own (default.jfc, profile.jfc), and
// async-profiler's (src/cpuEngine.h, src/wallClock.cpp, 4.5).
const (
	usualPeriod       = 20 * time.Millisecond
	usualInterval     = 10 * time.Millisecond
	usualWallInterval = 50 * time.Millisecond
)

func orUsual(d, usual time.Duration) time.Duration {
	if d <= 0 {
		d = usual
	}
	return d
}

// IntervalOf returns the time between two samples of the measure, 0 where there is none.
func (s *Settings) IntervalOf(m Measure) time.Duration {
	switch {
	case m == CPU && s.Async:
		return orUsual(s.Interval, usualInterval)
	case m == CPU:
		return orUsual(s.Period, usualPeriod)
	case m == Native:
		return orUsual(s.NativePeriod, usualPeriod)
	case m == Wall && s.Event == "wall":
		return orUsual(max(s.WallInterval, s.Interval), usualWallInterval)
	case m == Wall:
		return orUsual(s.WallInterval, usualWallInterval)
	}
	return 0
}

// eventKind says what events of one type count.
type eventKind struct {
	measure Measure
	exact   bool   // where a chunk has such events, the others of the measure are left out
	thread  string // field of the thread
	weigh   func(e Object, s *Settings) (weight, count int64)
}

var eventKinds = map[string]eventKind{
	"jdk.CPUTimeSample":               {CPU, true, "eventThread", weighField("samplingPeriod")},
	"jdk.ExecutionSample":             {CPU, false, "sampledThread", nil}, // of any measure: measureOf
	"jdk.NativeMethodSample":          {Native, false, "sampledThread", nil},
	"profiler.WallClockSample":        {Wall, true, "sampledThread", weighBatch},
	"jdk.ObjectAllocationSample":      {Alloc, false, "eventThread", weighField("weight")},
	"jdk.ObjectAllocationInNewTLAB":   {Alloc, true, "eventThread", weighField("tlabSize")},       // as async-profiler means it;
	"jdk.ObjectAllocationOutsideTLAB": {Alloc, true, "eventThread", weighField("allocationSize")}, // the JDK: weighAllocations
	"jdk.JavaMonitorEnter":            {Lock, false, "eventThread", weighField("duration")},
	"jdk.ThreadPark":                  {Lock, false, "eventThread", weighPark},
}

func weighField(name string) func(Object, *Settings) (int64, int64) {
	return func(e Object, _ *Settings) (int64, int64) { return e.Nanoseconds(name), 1 }
}

// weighBatch weighs equal samples of a thread that async-profiler has put into one event.
func weighBatch(e Object, s *Settings) (weight, count int64) {
	count = max(e.Int("samples"), 1) // 32 bits
	return count * int64(s.IntervalOf(Wall)), count
}

// locks are the classes that a thread parks on while another holds a lock. A thread of a pool
// that has nothing to do parks, too, on a condition.
var locks = []string{"java/util/concurrent/locks/Reentrant", "java/util/concurrent/locks/Stamped", "java/util/concurrent/Semaphore"}

// weighPark weighs a thread that waits for a lock; others count nothing.
func weighPark(e Object, _ *Settings) (weight, count int64) {
	class := e.Get("parkedClass").Text("name")
	for _, lock := range locks {
		if strings.HasPrefix(class, lock) {
			return e.Nanoseconds("duration"), 1
		}
	}
	return 0, 0
}

// kindOf returns what an event counts. ok is false where it counts nothing.
func kindOf(e Object, s *Settings) (k eventKind, ok bool) {
	k, ok = eventKinds[e.kind.Name]
	if ok && e.kind.Name == "jdk.ExecutionSample" {
		k.measure = executionMeasure(e, s)
	}
	return k, ok
}

// executionMeasure returns what a jdk.ExecutionSample counts. async-profiler writes samples
// of all its events as such; those of running threads by an event have no state
// (src/flightRecorder.cpp, 4.5).
func executionMeasure(e Object, s *Settings) Measure {
	if !s.Async {
		return CPU
	}
	if state := e.Text("state"); state != "STATE_DEFAULT" && state != "" {
		return Wall
	}
	switch s.Event {
	case "", "cpu", "itimer", "ctimer":
		return CPU
	case "wall":
		return Wall
	}
	return Count
}

// Survey looks through the events that were added last: it updates the settings, and notes
// which events have samples. Call it before [Chunk.Samples].
func (c *Chunk) Survey(s *Settings) {
	for e := range c.Events() {
		if e.kind.Name == "jdk.ActiveSetting" {
			c.noteSetting(e, s)
		}
	}
	for e := range c.Events() {
		if k, ok := kindOf(e, s); ok {
			c.found[k.measure] = true
			c.exact[k.measure] = c.exact[k.measure] || k.exact
		}
	}
}

// Has reports whether there were events of a measure.
func (c *Chunk) Has(m Measure) bool { return c.found[m] }

// Exact reports whether the events themselves say what a sample of the measure weighs.
func (c *Chunk) Exact(m Measure) bool { return c.exact[m] }

func (c *Chunk) noteSetting(e Object, s *Settings) {
	of, value := c.types.byID[e.Int("id")], e.Text("value")
	if of == nil {
		return
	}
	switch name := e.Text("name"); of.Name + "#" + name {
	case "jdk.ExecutionSample#period":
		s.Period = parsePeriod(value)
	case "jdk.NativeMethodSample#period":
		s.NativePeriod = parsePeriod(value)
	case "jdk.ExecutionSample#interval":
		s.Async, s.Interval = true, parseNanoseconds(value)
	case "jdk.ExecutionSample#wall":
		s.Async, s.WallInterval = true, parseNanoseconds(value)
	case "jdk.ActiveRecording#event":
		s.Async, s.Event = true, value
	}
}

// longestInterval is the longest that is believed: 2³¹ samples of it fit into 64 bits.
const longestInterval = 4 * time.Second

func parseNanoseconds(text string) time.Duration {
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ns < 0 || ns > int64(longestInterval) {
		return 0
	}
	return time.Duration(ns)
}

// parsePeriod parses a time as the JDK writes settings: "20 ms". Words, for example
// "everyChunk", are no time.
func parsePeriod(text string) time.Duration {
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil || d < 0 || d > longestInterval {
		return 0
	}
	return d
}

// Waits reports whether the chunk has no stack yet for a sample that names one. The JVM may add the
// stack with the next events, or never.
func (s *Sample) Waits() bool {
	if s.Trace.IsZero() && s.Key != 0 {
		s.Trace = s.event.Get("stackTrace")
	}
	return s.Trace.IsZero() && s.Key != 0
}

// Samples walks the samples of a measure among the events that were added last.
func (c *Chunk) Samples(m Measure, s *Settings) iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		weights := c.weightsOf(m, s)
		for e := range c.Events() {
			k, ok := kindOf(e, s)
			if !ok || k.measure != m || c.exact[m] && !k.exact {
				continue
			}
			weight, count := int64(s.IntervalOf(m)), int64(1)
			switch {
			case m == Count:
				weight = 1
			case len(weights) > 0:
				weight, weights = weights[0], weights[1:]
			case k.weigh != nil:
				weight, count = k.weigh(e, s)
			}
			if count == 0 {
				continue
			}
			if !yield(Sample{
				Thread: e.Get(k.thread), Trace: e.Get("stackTrace"), Key: e.Int("stackTrace"),
				Time: e.Time(), Weight: max(weight, 0), Count: count, Failed: e.Bool("failed"), event: e,
			}) {
				return
			}
		}
	}
}

// Lost returns how many samples of CPU time the JVM says it has lost, and how many bytes of
// events of any kind.
func (c *Chunk) Lost() (samples, bytes uint64) {
	for e := range c.Events() {
		switch e.kind.Name {
		case "jdk.CPUTimeSamplesLost":
			samples += uint64(max(e.Int("lostSamples"), 0))
		case "jdk.DataLoss":
			bytes += uint64(max(e.Int("amount"), 0))
		}
	}
	return samples, bytes
}
