package ccmap

import (
	"math"
	"time"
)

// Loss counts the samples that were not taken or not folded. All counts are
// samples; the durations are CPU time of the target.
//
// Time is also lost without any count: a thread ends before its first sample, or
// the sampler lacks file descriptors for it, or is stopped while it runs. The
// target's own clock shows such losses: Unaccounted is the part of Clock that no
// sample in the map stands for. It includes the time of samples that were counted
// as lost. So the time of the samples and Unaccounted add up to Clock.
type Loss struct {
	Source    uint64 // lost by the source, for example in the kernel's ring
	Queue     uint64 // dropped because a ring was full
	Throttled uint64 // times the kernel throttled the source (periods, not samples)
	Corrupt   uint64 // records that could not be decoded
	Orphaned  uint64 // partial samples whose thread was not known

	// Clock is the CPU time that the target used while it was sampled, by its own
	// clock. It leaves out time in the kernel if samples do. 0: not known.
	Clock time.Duration
	// ClockTick is the resolution of that clock, if the clock does not count exactly
	// but looks at the target once a tick; the coarsest of a merge. Where the target was
	// sampled in windows with pauses, it is at least the clock's time from one window to the next.
	ClockTick time.Duration
	// Unaccounted is Clock minus the time that the samples stand for: at most Clock,
	// and negative where they stand for more, by chance for example.
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

// Samples returns the number of samples lost. It leaves out throttling periods,
// as the number of samples that they cost is not known.
func (l Loss) Samples() uint64 { return l.Source + l.Queue + l.Corrupt }

// UnaccountedShare returns Unaccounted as a fraction of the target's CPU time,
// negative where samples stand for more. It is not known without a clock.
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
// clock and more than chance explains, if a sample stands for the given weight on
// average. Chance is three standard deviations of the number of samples and of the
// clock's ticks. The number of samples is taken to have a Poisson distribution, as
// in threads much shorter than the weight. Longer threads are sampled more evenly.
func (l Loss) Misses(weight time.Duration) bool {
	share, known := l.UnaccountedShare()
	return known && math.Abs(share) > tolerated && !l.byChance(share, weight)
}

// byChance reports whether three standard deviations explain a share of the clock.
func (l Loss) byChance(share float64, weight time.Duration) bool {
	variance := (float64(weight) + float64(l.ClockTick)) / float64(l.Clock) // of the share
	return math.Abs(share) <= deviations*math.Sqrt(variance)
}

// ExceedsByChance reports whether samples of the given weight on average stand for more than the clock
// by no more than chance explains: then no time is unaccounted for.
func (l Loss) ExceedsByChance(weight time.Duration) bool {
	share, known := l.UnaccountedShare()
	return known && share < 0 && l.byChance(share, weight)
}

// Blind says how much of a profile cannot be attributed, in percent of its time, or
// of its samples where it has no time.
type Blind struct {
	Truncated float64 // below [TruncatedName]: callers are missing
	Unknown   float64 // with [UnknownName] innermost; kernel frames do not count as innermost
}

// blindLimit is the percentage above which a profile misleads.
const blindLimit = 10

// Misleads reports whether so much cannot be attributed that the rest says little
// about the program. Such a profile is never said to have converged.
func (b Blind) Misleads() bool { return b.Truncated > blindLimit || b.Unknown > blindLimit }

// Blind returns how much of the profile cannot be attributed. The first call takes one walk
// through all nodes, if there is any such code.
func (s *Snapshot) Blind() Blind {
	s.blind.once.Do(func() { s.blind.Blind = s.findBlind() })
	return s.blind.Blind
}

func (s *Snapshot) findBlind() Blind {
	names, some := pseudoNames(s.names)
	if !some {
		return Blind{}
	}
	of := func(m MethodID) string {
		if m == NoMethod {
			return ""
		}
		return names[m]
	}
	var truncated, unknown Counters
	below := make([]bool, s.Len()) // by node: at or below a truncated stack's root
	for n := range s.Nodes() {
		below[n.ID] = of(n.Method) == TruncatedName || n.ID > 0 && below[n.Parent]
		if below[n.ID] {
			truncated = truncated.Add(n.Self)
		}
		innermost := n
		for innermost.ID > 0 && (innermost.Method == NoMethod || of(innermost.Method) == KernelName) {
			innermost = s.Node(innermost.Parent)
		}
		if of(innermost.Method) == UnknownName {
			unknown = unknown.Add(n.Self)
		}
	}
	return Blind{Truncated: s.percent(truncated), Unknown: s.percent(unknown)}
}

// percent returns a part of the profile.
func (s *Snapshot) percent(c Counters) float64 {
	part, whole := c.Time, s.total.Time
	if whole == 0 {
		part, whole = c.Samples, s.total.Samples
	}
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// pseudoNames returns the names of the pseudo methods, by id, and whether there are any that are blind. A pseudo method
// with a signature, such as the unknown code of one file or a system call, has an id of its own.
func pseudoNames(names *Names) (found []string, some bool) {
	found = make([]string, names.Len())
	for id := range found {
		switch name := names.At(MethodID(id)).Name; name {
		case TruncatedName, UnknownName:
			found[id], some = name, true
		case KernelName:
			found[id] = name
		}
	}
	return found, some
}
