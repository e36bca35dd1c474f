package sampler

import (
	"fmt"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Stats has the figures of a source: totals since its start, and its present state.
type Stats struct {
	Counts     Counts
	Loss       ccmap.Loss    // with the target's clock if it has one: see [ccmap.Loss]
	Warning    string        // for every reader of the profile, with the cure, for example "3 of 9 threads were not sampled: …"; empty: none
	Unseen     string        // why no sample stands for a part of the CPU time, with the cure, where the source knows more than that
	Files      []string      // comments on files of the target, or on requests: see [ccmap.CommentNoFrames], [ccmap.CommentRequests]
	Threads    int           // attached now
	Interval   time.Duration // CPU time between two samples of one thread; 0: the source has no interval
	LastChange time.Duration // how long the last change of the interval took to reach every thread
	NoCalls    string        // why no calls can be caught; empty: they can
	Overhead   Overhead
	Elided     ccmap.Elided // frames that deep stacks lack
}

// Overhead is the CPU time that sampling has cost since the start: counts times costs that
// were measured on this machine. The target pays where its own code stops. The host pays for
// timers that interrupt all programs.
type Overhead struct {
	Samples  time.Duration // interrupts that took a sample
	Switches time.Duration // context switches of threads that have timers
	Watches  time.Duration // context switches of threads that have watchpoints, for verdicts
	Verdicts time.Duration // setting of watchpoints, at most, and traps of writes
	Calls    time.Duration // caught calls, setting of their breakpoints, and switches of threads that have breakpoints, at most
	Recorder time.Duration // threads of the target that write a recording of it
	Of       time.Duration // CPU time of the target; 0: the overhead is not known

	// Sampled is the part of the time that was sampled, where sampling all the time would have
	// cost more than permitted; 0: all of it.
	Sampled float64

	// Host is the part of a core that timers take of every CPU, for all targets of the
	// engine together; 0: the engine interrupts only its target.
	Host       float64
	Interrupts time.Duration // interrupts of busy CPUs that took no sample: other programs pay
	Least      time.Duration // shortest interval within the bound of Host; 0: there is no bound
	Raised     uint64        // intervals that were made longer, to bound Host
}

// Sampling returns the target's time that depends on the interval.
func (o Overhead) Sampling() time.Duration { return o.Samples + o.Verdicts }

// Fixed returns the target's time that does not depend on the interval.
func (o Overhead) Fixed() time.Duration { return o.Switches + o.Watches + o.Calls + o.Recorder }

// Percent returns the part of the target's CPU time that a time is.
func (o Overhead) Percent(d time.Duration) float64 {
	if o.Of <= 0 {
		return 0
	}
	return 100 * float64(d) / float64(o.Of)
}

// Total returns all of the target's time.
func (o Overhead) Total() time.Duration { return o.Sampling() + o.Fixed() }

// String returns the target's overhead for people, for example
// "overhead 0.3 % of the target: 0.2 samples, 0.1 thread switches". It is empty if the
// overhead is not known.
func (o Overhead) String() string {
	if o.Of <= 0 {
		return ""
	}
	text := fmt.Sprintf(overheadText+"%.1f %% of the target: %.1f samples", o.Percent(o.Total()), o.Percent(o.Samples))
	for _, part := range []struct {
		time time.Duration
		name string
	}{{o.Switches, "thread switches"}, {o.Watches + o.Verdicts, "verdicts"}, {o.Calls, "caught calls"}, {o.Recorder, "recorder"}} {
		if part.time > 0 {
			text += fmt.Sprintf(", %.1f %s", o.Percent(part.time), part.name)
		}
	}
	if o.Sampled > 0 {
		text += fmt.Sprintf("; sampled %.1f %% of the time, to bound it", 100*o.Sampled)
	}
	return text
}

// OfHost returns the host's overhead for people, for example
// "timers take 0.3 % of each CPU". It is empty where the engine interrupts only its target.
func (o Overhead) OfHost() string {
	if o.Host <= 0 {
		return ""
	}
	return fmt.Sprintf("timers take %.1f %% of each CPU", 100*o.Host)
}

// overheadText begins the text of an overhead.
const overheadText = "overhead "

// IsOverhead reports whether a comment of a profile is the text of an [Overhead].
func IsOverhead(comment string) bool { return strings.HasPrefix(comment, overheadText) }

// Counts has a number for each [Counter]. It is 0 for all that a source does not count.
type Counts [NumCounters]uint64

// Counter is a number in [Stats]. Reports loop over all of them, from 0 to NumCounters,
// and so include a further counter as well. A counter is a total since the start of the
// source, unless it says that it is of now.
type Counter uint8

const (
	Samples     Counter = iota // pushed
	Repaired                   // samples whose first caller the kernel's walk had lost
	Rooted                     // samples that reach a known root of the runtime
	Truncated                  // samples with frames lost
	InKernel                   // samples taken in the kernel
	Foreign                    // samples with frames outside Go (C, vDSO)
	Recalled                   // foreign samples whose Go callers are an earlier sample's: see package perf
	Armed                      // watchpoints set on top activations
	Watchpoints                // of the hardware, that the source may use now; 0: verdicts are unknown
	Caught                     // calls caught by breakpoints and pushed, as samples with Hit set; not among Samples
	Strays                     // calls caught and dropped, because their target is not a known function
	Bursts                     // times that breakpoints were set for some milliseconds
	HotCalls                   // call instructions that are indirect and hot now

	// Of a VM whose threads sample themselves at safe points, when they are marked.

	Marks     // times that all threads were marked
	LateMarks // marks more than 1.5 intervals after the one before
	Unsafe    // threads now that run, were marked, and have reached no safe point for 1 s
	Panicked  // threads no longer sampled, because their walker or hook panicked
	Abandoned // threads that were collected as garbage without having been detached

	NumCounters // how many there are
)

// counterKeys are the names of the counters in reports.
var counterKeys = [NumCounters]string{
	Samples:     "samples",
	Repaired:    "repaired",
	Rooted:      "rooted",
	Truncated:   "truncated",
	InKernel:    "kernel",
	Foreign:     "foreign",
	Recalled:    "recalled",
	Armed:       "probed",
	Watchpoints: "probes",
	Caught:      "hits",
	Bursts:      "bursts",
	HotCalls:    "hit_sites",
	Marks:       "marks",
	LateMarks:   "late",
	Unsafe:      "unsafe",
	Panicked:    "panicked",
	Abandoned:   "abandoned",
}

// Key returns the name of the counter in reports, for example "samples". Strays are in no
// report, and have none.
func (c Counter) Key() string { return counterKeys[c] }

// Inside reports whether only a source whose threads sample themselves has the counter.
func (c Counter) Inside() bool { return c >= Marks }
