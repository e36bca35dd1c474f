package ccmap

import (
	"math"
	"time"
)

// Loss counts what was not sampled or not folded. All counts are samples; the two
// durations are CPU time of the target.
//
// Time is also lost without any count. A thread may end before its first sample,
// the sampler may lack file descriptors for it, or be stopped while it runs. The
// target's own clock tells: Unaccounted is the part of Clock that no sample in the
// map stands for. It includes the time of samples that were counted as lost. So
// the time of the samples and Unaccounted add up to Clock.
type Loss struct {
	Source    uint64 // lost by the source, for example in the kernel's ring
	Queue     uint64 // dropped because a ring was full
	Throttled uint64 // times the kernel throttled the source (periods, not samples)
	Corrupt   uint64 // records that could not be decoded
	Orphaned  uint64 // partial samples whose thread was not known

	// Clock is the CPU time that the target used while it was sampled, by its own
	// clock. It leaves out time in the kernel if samples do. 0: not known.
	Clock time.Duration
	// ClockTick is how coarse that clock is, if it does not count exactly but
	// looks at the target once a tick; the coarsest of a merge.
	ClockTick time.Duration
	// Unaccounted is Clock less what the samples stand for: at most Clock, and
	// negative where they stand for more, by chance for example.
	Unaccounted time.Duration
}

// Add returns the sum of two losses. Durations stay at the longest one instead of
// overflowing.
func (l Loss) Add(o Loss) Loss {
	return Loss{
		Source:      l.Source + o.Source,
		Queue:       l.Queue + o.Queue,
		Throttled:   l.Throttled + o.Throttled,
		Corrupt:     l.Corrupt + o.Corrupt,
		Orphaned:    l.Orphaned + o.Orphaned,
		Clock:       addDurations(l.Clock, o.Clock),
		ClockTick:   max(l.ClockTick, o.ClockTick),
		Unaccounted: addDurations(l.Unaccounted, o.Unaccounted),
	}
}

func addDurations(a, b time.Duration) time.Duration {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// Samples returns the number of samples lost, which leaves out throttling
// periods: how many samples those cost is not known.
func (l Loss) Samples() uint64 { return l.Source + l.Queue + l.Corrupt }

// UnaccountedShare returns how much of the target's CPU time no sample stands
// for, as a fraction of it, negative where samples stand for more. It is not
// known without a clock.
func (l Loss) UnaccountedShare() (share float64, known bool) {
	if l.Clock <= 0 {
		return 0, false
	}
	return float64(l.Unaccounted) / float64(l.Clock), true
}

// Unaccounted time deserves a warning if it is more than this share of the clock,
// either way, and more than this many standard deviations of the number of samples.
const (
	tolerated  = 0.02
	deviations = 3
)

// Misses reports whether Unaccounted, or its opposite, is more than 2 % of the
// clock and more than chance explains, where a sample stands for the given weight
// on average. Chance is three standard deviations of a Poisson distribution of the
// samples, as threads much shorter than the weight have it, and of the clock's
// ticks. Longer threads are sampled more evenly.
func (l Loss) Misses(weight time.Duration) bool {
	share, known := l.UnaccountedShare()
	if !known || math.Abs(share) <= tolerated {
		return false
	}
	variance := (float64(weight) + float64(l.ClockTick)) / float64(l.Clock) // of the share
	return math.Abs(share) > deviations*math.Sqrt(variance)
}
