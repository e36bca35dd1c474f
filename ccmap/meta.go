package ccmap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Meta says where a map came from and how far it can be trusted. It travels
// with the map into every export. The zero Meta describes an empty map.
type Meta struct {
	Target   Target           // the first of a merge
	Engine   string           // the source that took the samples, for example "perf"
	Unit     Unit             // of the weights; all parts of a merge have the same, except empty ones
	Start    time.Time        // of the first session; UTC
	Duration time.Duration    // wall time sampled; of merged maps what they have not sampled at the same time
	Ended    string           // why the session ended, for example "target exited with code 0"
	Interval []IntervalChange // in the order of time
	Loss     Loss
	// Repetitions of the top activation: Known samples had a verdict, and Repeated
	// of them found the same activation again.
	Known, Repeated uint64
	Window          time.Duration // time constant of the recent counters; 0: there are none
	Pruned          PruneStats
	Settled         Settled
	Elided          Elided
	// Comments are anything else a reader should see, one line each. A comment that
	// begins with [CommentWarning] says why the profile is not the whole truth.
	Comments []string
}

const (
	fewKnown     = 30   // verdicts; with fewer, they do not say how often an activation repeats
	mostRepeated = 0.99 // so that a profile of repetitions only keeps some independent samples
)

// RepetitionRate returns how probably a sample finds the same activation as the sample
// before, 0 to 0.99. It is 0 where too few samples have a verdict.
func (m Meta) RepetitionRate() float64 {
	if m.Known < fewKnown {
		return 0
	}
	return min(float64(m.Repeated)/float64(m.Known), mostRepeated)
}

// Independence returns the effective sample size for each sample, over 0 to 1. A run of
// samples that find the same activation counts as one. With a rate r of repetitions the
// effective size is (1−r)/(1+r) (the design effect of runs of geometric length).
func (m Meta) Independence() float64 {
	r := m.RepetitionRate()
	return (1 - r) / (1 + r)
}

// CommentWarning begins the comments that every view shows.
const CommentWarning = "warning: "

// CommentParts begins the comment that names the programs of a merge, which has no Target then.
const CommentParts = "merged of "

// CommentNoKernel begins the comment that says why a profile has no time in the kernel.
const CommentNoKernel = "time in the kernel is left out: "

// CommentHeld begins the comment that says which budget has kept a session from more samples.
const CommentHeld = "held: "

// CommentRequests begins the comments on requests. One says how many independent looks at them a profile has: the name of
// the function that answers them, ": an independent look each ", and a [time.Duration] follow. One says how far those that
// were counted tell the others: the name, ": counted like ", a number, and " independent ones". The last says why they were
// not counted: "not counted: ", and the reason.
const CommentRequests = "requests: "

// CommentUnaccounted begins the comment that says why no sample stands for a part of the CPU time.
const CommentUnaccounted = "unaccounted: "

// These begin comments on files of the target whose code lacks callers, or names. The path follows.
const (
	CommentNoFrames = "no call frame information: " // the file has none
	CommentUnread   = "not read in time: "          // its symbols or call frame information
)

// PruneStats counts the nodes that a map removed to stay within its bounds, summed
// over merged maps.
type PruneStats struct {
	Times uint64 // how often it was pruned
	Nodes uint64 // context nodes removed, some of them repeatedly
}

// Elided says how many frames [ElidedName] stands for, summed up over merged maps. Inlined calls do not count.
type Elided struct {
	Samples     uint64 // with such a frame
	Least, Most uint64 // frames that it stands for, in the stack with the fewest and the most; 0: not known
	Uncounted   uint64 // of Samples, those that lack more frames than were counted: Most may be larger
}

// Add returns the figures of both.
func (e Elided) Add(o Elided) Elided {
	least := min(e.Least, o.Least)
	if least == 0 {
		least = max(e.Least, o.Least)
	}
	return Elided{Samples: e.Samples + o.Samples, Least: least, Most: max(e.Most, o.Most), Uncounted: e.Uncounted + o.Uncounted}
}

// Settled says how far a profile has converged: the overlap of two halves of its
// samples, in percent, 0 where unknown. It describes one session, so a merge drops
// it.
type Settled struct {
	Methods, Edges, Contexts float64
	Samples                  int64 // that it was computed from
}

// Target identifies the program that was sampled.
type Target struct {
	PID         int
	Executable  string // path as the target's own namespace sees it
	CommandLine []string
	BuildID     string // Go build id or GNU build id, or a hash of the code; empty where unknown
	Runtime     string // for example "go1.26.8"

	// Commit is when the source of the program was committed, to the second (vcs.time of runtime/debug.BuildInfo);
	// zero where unknown.
	Commit time.Time
}

// IntervalChange is one setting of the sampling interval. The first of a
// session is its initial one.
type IntervalChange struct {
	At       time.Duration // since the session's start
	Interval time.Duration // CPU time between two samples of one thread
	Reason   string        // for people, for example "repetitions 87.4 % over 15 %"
}

// clone returns a copy that shares nothing that can change.
func (m Meta) clone() Meta {
	m.Target.CommandLine = slices.Clone(m.Target.CommandLine)
	m.Interval = slices.Clone(m.Interval)
	m.Comments = slices.Clone(m.Comments)
	return m
}

// merge adds the description of another map to m. Counts add up, and durations as covered has them. The
// start is the earlier one, and changes of the interval count from it. Other fields
// of m stay if they are set. A comment that both have stays one comment.
func (m *Meta) merge(o Meta, c *covered) {
	o = o.clone()
	if len(*c) == 0 {
		c.add(m.Start, m.Duration)
	}
	m.Duration += c.add(o.Start, o.Duration)
	if m.Target.isZero() {
		m.Target = o.Target
	}
	m.Engine = cmp.Or(m.Engine, o.Engine)
	m.Ended = cmp.Or(m.Ended, o.Ended)
	m.mergeIntervals(o)
	m.Loss = m.Loss.Add(o.Loss)
	m.Known += o.Known
	m.Repeated += o.Repeated
	m.Pruned.Times += o.Pruned.Times
	m.Pruned.Nodes += o.Pruned.Nodes
	m.Elided = m.Elided.Add(o.Elided)
	m.Settled = Settled{}
	for _, c := range o.Comments {
		if !slices.Contains(m.Comments, c) {
			m.Comments = append(m.Comments, c)
		}
	}
}

// mergeIntervals merges the starts and the interval changes, which count from
// them.
func (m *Meta) mergeIntervals(o Meta) {
	switch {
	case m.Start.IsZero():
		m.Start = o.Start
	case o.Start.IsZero():
	case o.Start.Before(m.Start):
		shift(m.Interval, m.Start.Sub(o.Start))
		m.Start = o.Start
	default:
		shift(o.Interval, o.Start.Sub(m.Start))
	}
	m.Interval = append(m.Interval, o.Interval...)
	slices.SortStableFunc(m.Interval, func(a, b IntervalChange) int { return cmp.Compare(a.At, b.At) })
}

func shift(changes []IntervalChange, by time.Duration) {
	for i := range changes {
		changes[i].At += by
	}
}

func (t Target) isZero() bool {
	return t.PID == 0 && t.Executable == "" && t.BuildID == "" && t.Runtime == "" && t.Commit.IsZero() && len(t.CommandLine) == 0
}

// ErrUnlike is the error of merging or comparing profiles whose weights have
// different units. The error that wraps it names both.
var ErrUnlike = errors.New("profiles measure different things")

// Unit is the unit of the weight of samples, [Counters].Time. pprof calls it a
// sample type: a kind and a base unit. The zero Unit is CPU time in nanoseconds.
// Units are equal if and only if == says so.
type Unit struct{ kind, base string }

// Units of ccmapd's own profiles. Profiles of other tools have others too.
var (
	CPUTime      = Unit{}
	Instructions = Unit{"instructions", "count"}
	SampleCount  = Unit{"samples", "count"}
)

// cpuTime is how formats write the zero Unit.
var cpuTime = Unit{"cpu", Nanoseconds}

// Nanoseconds is the base of all units of time: readers convert the others.
const Nanoseconds = "nanoseconds"

// NewUnit returns the unit of a kind, for example "alloc_space", that is counted in
// a base, for example "bytes". Without either it is CPU time.
func NewUnit(kind, base string) Unit {
	u := Unit{kind, base}
	if u == cpuTime {
		return CPUTime
	}
	return u
}

// Kind returns the quantity, for example "cpu", "alloc_space", "delay".
func (u Unit) Kind() string { return u.written().kind }

// Base returns the base unit, for example "nanoseconds", "bytes", "count".
func (u Unit) Base() string { return u.written().base }

// String returns kind and base, for example "cpu/nanoseconds".
func (u Unit) String() string { return u.Kind() + "/" + u.Base() }

// Equal is u == o, for packages that compare by a method, as go-cmp does.
func (u Unit) Equal(o Unit) bool { return u == o }

func (u Unit) written() Unit {
	if u == CPUTime {
		return cpuTime
	}
	return u
}

// CheckLike returns an error that wraps [ErrUnlike] if the units differ.
func CheckLike(a, b Unit) error {
	if a == b {
		return nil
	}
	return fmt.Errorf("%w: %q and %q", ErrUnlike, a, b)
}

// SetUnit sets the unit of the map's weights. A map that already has weights of
// another unit stays unchanged: the error wraps [ErrUnlike].
func (m *Map) SetUnit(u Unit) error {
	if !m.isEmpty() {
		return CheckLike(m.meta.Unit, u)
	}
	m.meta.Unit = u
	return nil
}
