package ccmap

import (
	"cmp"
	"slices"
	"time"
)

// Meta says where a map came from and how far it can be trusted. It travels
// with the map into every export. The zero Meta is that of an empty map.
type Meta struct {
	Target   Target           // the first of a merge
	Engine   string           // the source that took the samples, for example "perf"
	Unit     Unit             // of the weights; of a merge that is not empty, the one that all have
	Start    time.Time        // of the first session; UTC
	Duration time.Duration    // wall time sampled, summed over merged maps
	Ended    string           // why the session ended, for example "target exited with code 0"
	Interval []IntervalChange // in the order of time
	Loss     Loss
	// Repetitions of the top activation: Known samples had a verdict, Repeated
	// of them the verdict "same activation".
	Known, Repeated uint64
	Window          time.Duration // time constant of the recent counters; 0: there are none
	Pruned          PruneStats
	Settled         Settled
	// Comments are anything else a reader should see, one line each. A comment that
	// begins with [CommentWarning] says why the profile is not the whole truth.
	Comments []string
}

// CommentWarning begins the comments that every view shows.
const CommentWarning = "warning: "

// PruneStats counts what a map left out to stay within its bounds, summed over
// merged maps.
type PruneStats struct {
	Times uint64 // how often it was pruned
	Nodes uint64 // context nodes removed, some of them repeatedly
}

// Settled says how far a profile has converged: what two halves of its samples
// overlap, in percent, 0 where unknown. It is of one session, so that a merge
// drops it.
type Settled struct {
	Methods, Edges, Contexts float64
	Samples                  int64 // that it was computed from
}

// Target identifies the program that was sampled.
type Target struct {
	PID         int
	Executable  string // path as the target's own namespace sees it
	CommandLine []string
	BuildID     string // Go build id or GNU build id; empty where unknown
	Runtime     string // for example "go1.26.8"
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

// merge adds what o says, the description of another map, to m. Counts and
// durations add up, the start is the earlier one and changes of the interval
// count from it; of the rest m keeps what it says already. Comments that both
// have stay one.
func (m *Meta) merge(o Meta) {
	o = o.clone()
	if m.Target.isZero() {
		m.Target = o.Target
	}
	m.Engine = firstNonEmpty(m.Engine, o.Engine)
	m.Ended = firstNonEmpty(m.Ended, o.Ended)
	m.mergeIntervals(o)
	m.Duration += o.Duration
	m.Loss = m.Loss.Add(o.Loss)
	m.Known += o.Known
	m.Repeated += o.Repeated
	m.Pruned.Times += o.Pruned.Times
	m.Pruned.Nodes += o.Pruned.Nodes
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
	return t.PID == 0 && t.Executable == "" && t.BuildID == "" && t.Runtime == "" && len(t.CommandLine) == 0
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
