package tuning

import (
	"math"
	"time"
)

// search finds the interval at which the rate of repetitions lies between the
// thresholds.
//
// The rate p(I) at interval I is the chance that an activation on top outlasts
// I: the mean of max(0, 1 − I/L) over the lengths L of activations, each
// weighted with the time it spends on top. Whatever the lengths are, p falls
// from p(0) = 1 and is convex, and for a single length it is a straight line.
// So the chord from (0, 1) through the measured point reaches the wanted rate
// at an interval that is exact for one length and never beyond the right one
// for many: steps along it cannot oscillate. Where lengths differ much the
// chord is slow, so each further step the same way is twice as bold; an
// interval found to be too long or too short bounds all later ones.
type search struct {
	changes int           // made
	streak  int           // of them the last so many were for the same verdict
	last    verdict       // that one
	short   time.Duration // found too short; 0: none
	shortAt rate          // the rate there
	long    time.Duration // found too long; 0: none
}

const (
	// maxFactor bounds a step: one window is not trusted with more.
	maxFactor = 10
	// blindFactor is the first step down from a rate of 0, which tells that
	// activations are shorter than the interval, but not how much.
	blindFactor = 4
	// maxStreak is how many steps one way the bound on the far side is
	// believed. More of them mean that the program has changed meanwhile.
	maxStreak = 3
	// maxChanges ends a search that finds nothing, as when the target works in
	// step with its sampling.
	maxChanges = 8
)

// next returns the interval to try after the given one has shown a rate r that
// is under or over the thresholds.
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

// made counts a change to the interval that next has returned.
func (s *search) made() {
	s.changes++
	s.streak++
}

// exhausted reports whether the search has made all changes that it may.
func (s *search) exhausted() bool { return s.changes >= maxChanges }

// bound keeps an interval as too short or too long, and drops the bound on the
// other side where the two contradict each other or it has got old.
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

// boldness is how many steps are taken at once: 1, then 2, 4, 8 and so on for
// further ones the same way.
func (s *search) boldness() float64 { return math.Ldexp(1, s.streak) }

// chord returns the factor from an interval with rate p to the one where the
// straight line through (0, 1) has the wanted rate; +Inf for p = 1.
func chord(p, want float64) float64 {
	return (1 - want) / (1 - p)
}

// scale returns d times a factor, bounded.
func scale(d time.Duration, factor float64) time.Duration {
	factor = min(max(factor, 1.0/maxFactor), maxFactor)
	return time.Duration(factor * float64(d))
}

// between returns the geometric mean of two intervals.
func between(a, b time.Duration) time.Duration {
	return time.Duration(math.Sqrt(float64(a) * float64(b)))
}
