package ccmap

import "math/bits"

// wholes rounds weights, one after the other, to counts that a float32 can hold,
// so that a profile that is written and read again has the same. It makes good
// with one count what it took from the last, so that the sum is right.
type wholes struct{ owed weights }

func (o *wholes) round(w weights) Counters {
	return Counters{Samples: toWhole(w.samples, &o.owed.samples), Time: toWhole(w.time, &o.owed.time)}
}

func toWhole(v float64, owed *float64) int64 {
	if v == 0 {
		return 0
	}
	v += *owed
	n := wholeFloat32(v)
	*owed = v - float64(n)
	return n
}

// wholeFloat32 returns the whole number nearest to v, from 0, of those that a
// float32 can hold.
func wholeFloat32(v float64) int64 {
	const limit = 1<<63 - 1<<39 // the largest that fits
	if v >= limit {
		return limit
	}
	n := int64(max(v, 0) + 0.5)
	drop := max(bits.Len64(uint64(n))-24, 0)
	n = (n + (1<<drop)>>1) >> drop << drop
	return min(n, limit)
}
