package ccmap

import (
	"slices"
	"time"
)

// covered is the wall time that the parts of a merge have sampled, as stretches that do not overlap, the earliest
// first. Programs that ran side by side for a minute were sampled for a minute, and one minute after another is two.
type covered []stretch

// stretch is a time from one moment to another.
type stretch struct{ from, to time.Time }

// mostStretches bounds the stretches. Beyond that a part is taken for one that overlaps no other.
const mostStretches = 1024

// add adds a part, and returns how much of it no other part has sampled. A part whose start is not known overlaps none.
func (c *covered) add(start time.Time, duration time.Duration) (fresh time.Duration) {
	if start.IsZero() || duration <= 0 {
		return duration
	}
	own := stretch{start, start.Add(duration)}
	first, last := len(*c), 0 // of those that touch the part
	for i, s := range *c {
		if !s.to.Before(own.from) && !own.to.Before(s.from) {
			first, last = min(first, i), i+1
		}
	}
	if first >= last {
		if at := slices.IndexFunc(*c, func(s stretch) bool { return s.from.After(own.from) }); len(*c) >= mostStretches {
			return duration
		} else if at >= 0 {
			*c = slices.Insert(*c, at, own)
		} else {
			*c = append(*c, own)
		}
		return duration
	}
	before := time.Duration(0)
	for _, s := range (*c)[first:last] {
		before += s.to.Sub(s.from)
		own = stretch{earlier(own.from, s.from), later(own.to, s.to)}
	}
	*c = slices.Replace(*c, first, last, own)
	return own.to.Sub(own.from) - before
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
