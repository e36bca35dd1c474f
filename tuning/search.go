package tuning

import (
	"math"
	"time"
)

// search finds the interval where the rate of repetitions lies between the thresholds.
//
// The rate p(I) at interval I is the probability that an activation on top outlasts
// I: the mean of max(0, 1 − I/L) over the lengths L of activations, each weighted with
// its time on top. For any lengths, p falls from p(0) = 1 and is convex. For a single
// length it is a straight line. The search follows the chord from (0, 1) through the
// measured point to the wanted rate. The interval there is exact for a single length,
// and never beyond the right one for several. So steps along the chord cannot
// oscillate. If lengths differ much, the chord is slow. So each further step in the
// same direction is twice as bold. An interval that was too long or too short bounds
// all later ones.
type search struct {
	changes int           // of the interval
	streak  int           // of the latest changes, for the same verdict
	last    verdict       // of the latest change
	short   time.Duration // an interval that was too short; 0: none
	shortAt rate          // the rate there
	long    time.Duration // an interval that was too long; 0: none
}

const (
	// maxFactor bounds a step: one window does not justify more.
	maxFactor = 10
	// blindFactor is the first step down from a rate of 0. Such a rate shows that
	// activations are shorter than the interval, but not by how much.
	blindFactor = 4
	// maxStreak is the number of steps in one direction that the bound on the far side
	// holds. After more steps the program must have changed.
	maxStreak = 3
	// maxChanges ends a search without a result. A target that works in step with its
	// sampling can have no right interval.
	maxChanges = 8
)

// next returns the interval to try after interval d had a rate r under or over the
// thresholds.
func (s *search) next(d time.Duration, r rate, v verdict, middle float64) time.Duration {
	if v != s.last {
		s.last, s.streak = v, 0
	}
	s.bound(d, r, v)
	if v == over {
		return s.longer(d, r, middle)
	}
	return s.shorter(d, r, middle)
}

// made counts a change to the interval that next returned.
func (s *search) made() {
	s.changes++
	s.streak++
}

// exhausted reports whether the search may make no more changes.
func (s *search) exhausted() bool { return s.changes >= maxChanges }

// bound records an interval as too short or too long. It drops the bound on the other
// side if the two contradict each other, or if that bound is old.
func (s *search) bound(d time.Duration, r rate, v verdict) {
	old := s.streak >= maxStreak
	if v == over {
		s.short, s.shortAt = d, r
		if old || s.long <= d {
			s.long = 0
		}
		return
	}
	s.long = d
	if old || s.short >= d {
		s.short = 0
	}
}

func (s *search) longer(d time.Duration, r rate, middle float64) time.Duration {
	want := scale(d, math.Pow(chord(r.value(), middle), s.boldness()))
	if s.long > 0 && want >= s.long {
		return between(d, s.long)
	}
	return want
}

func (s *search) shorter(d time.Duration, r rate, middle float64) time.Duration {
	if s.short > 0 {
		lo, _ := s.shortAt.bounds()
		least := scale(s.short, max(1, chord(lo, middle)))
		return between(min(least, d), d)
	}
	if r.repeated == 0 {
		return scale(d, math.Pow(blindFactor, -s.boldness()))
	}
	return scale(d, math.Pow(chord(r.value(), middle), s.boldness()))
}

// boldness returns the number of steps to take at once: 1, then 2, 4, 8 and so on for
// further steps in the same direction.
func (s *search) boldness() float64 { return math.Ldexp(1, s.streak) }

// chord returns the factor from an interval with rate p to the interval where the
// straight line through (0, 1) has the wanted rate: +Inf for p = 1.
func chord(p, want float64) float64 {
	return (1 - want) / (1 - p)
}

// scale returns d times a factor, which it bounds by maxFactor.
func scale(d time.Duration, factor float64) time.Duration {
	factor = min(max(factor, 1.0/maxFactor), maxFactor)
	return time.Duration(factor * float64(d))
}

// between returns the geometric mean of two intervals.
func between(a, b time.Duration) time.Duration {
	return time.Duration(math.Sqrt(float64(a) * float64(b)))
}
