package ccmap

import "math"

// Counters are the totals of a node or of a view. They are never negative, and
// stay at the largest int64 instead of overflowing.
type Counters struct {
	Samples     int64 // how often it was sampled
	Time        int64 // that these samples stand for, in the profile's [Unit]: ns of CPU time, if none is given
	Activations int64 // calls seen: exact, or a lower bound ([Snapshot.ActivationsExact])
}

// Add returns the sum of two counters.
func (c Counters) Add(o Counters) Counters {
	return Counters{
		Samples:     addSaturated(c.Samples, o.Samples),
		Time:        addSaturated(c.Time, o.Time),
		Activations: addSaturated(c.Activations, o.Activations),
	}
}

// IsZero reports whether nothing was counted.
func (c Counters) IsZero() bool { return c == Counters{} }

// addSaturated adds two counts that are not negative.
func addSaturated(a, b int64) int64 {
	s := a + b
	return (s | s>>63) & math.MaxInt64
}
