package compare

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// evidence says how much the samples of a profile say, fewer being independent of
// each other than there are.
type evidence struct {
	// effect is how many samples say as much as one that is independent of the
	// others (the design effect; Kish, "Survey Sampling", 1965), from 1. It is a
	// product of two.
	//
	// Repetitions: a sample that finds the activation that the last one found is no
	// witness of its own. If that happens with probability r, shares vary as much
	// as with (1−r)/(1+r) as many independent samples.
	//
	// Intervals that changed: where samples weigh differently, shares of time vary
	// by n·Σw²/(Σw)² more than if they weighed the same.
	effect float64

	visits visits // of contexts with few samples
}

// newEvidence is given what was counted at contexts. Calls are not sampled again:
// their effect is 1.
func newEvidence(meta ccmap.Meta, w Weight, at []counted) evidence {
	e := evidence{effect: 1}
	if w == ByActivations {
		return e
	}
	if meta.Known >= leastKnown && meta.Repeated > 0 {
		r := min(float64(meta.Repeated)/float64(meta.Known), mostRepeating)
		e.effect = (1 + r) / (1 - r)
		e.visits = newVisits(r, at)
	}
	if w == ByTime {
		e.effect *= intervalEffect(meta)
	}
	return e
}

const (
	leastKnown    = 30   // verdicts on repetitions that say how probable they are
	mostRepeating = 0.99 // a profile of one activation has some samples at least
)

// intervalEffect takes the CPU time of each setting of the interval for
// proportional to its wall time. Then a setting that held for a time t has t/w
// samples of weight w.
func intervalEffect(meta ccmap.Meta) float64 {
	var n, sum, squares float64
	for i, c := range meta.Interval {
		end := meta.Duration
		if i+1 < len(meta.Interval) {
			end = meta.Interval[i+1].At
		}
		if c.Interval > 0 && end > c.At {
			held, w := (end - c.At).Seconds(), float64(c.Interval)/float64(time.Second)
			n += held / w
			sum += held
			squares += held * w
		}
	}
	if sum == 0 {
		return 1
	}
	return max(1, n*squares/(sum*sum))
}
