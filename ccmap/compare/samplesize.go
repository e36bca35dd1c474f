package compare

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// sampleSize gives the effective sample size of a profile: how many independent
// samples say as much as its samples, which depend on each other.
type sampleSize struct {
	// effect is how many samples say as much as one independent sample (the design
	// effect; Kish, "Survey Sampling", 1965), from 1. It is a product of two factors.
	//
	// Repetitions: a sample that finds the same activation as the last one adds nothing.
	// If that happens with probability r, shares vary as much as with (1−r)/(1+r) times
	// as many independent samples.
	//
	// Intervals that changed: if samples weigh differently, the variance of shares of
	// time is n·Σw²/(Σw)² times the variance with equal weights.
	effect float64

	visits visits // of contexts with few samples
}

// newSampleSize needs the counts of contexts. Calls are not sampled again: their
// effect is 1.
func newSampleSize(meta ccmap.Meta, w Weight, at []counted) sampleSize {
	e := sampleSize{effect: designEffect(meta, w)}
	if r := meta.RepetitionRate(); r > 0 && w != ByActivations {
		e.visits = newVisits(r, at)
	}
	return e
}

// designEffect returns the effect of a profile's samples by a weight.
func designEffect(meta ccmap.Meta, w Weight) float64 {
	if w == ByActivations {
		return 1
	}
	effect := 1.0
	if r := meta.RepetitionRate(); r > 0 {
		effect = (1 + r) / (1 - r)
	}
	if w == ByTime {
		effect *= intervalEffect(meta)
	}
	return effect
}

// intervalEffect takes the CPU time of each setting of the interval to be
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

// few is a number of samples. For contexts with at most so many, the number of
// visits is estimated. A visit is a sample that found the context anew, not again.
const few = 16

// visits has, by number of samples n and by number of visits k ≤ n, the probability
// that a context with n samples was visited k times or fewer. It is nil if nothing
// repeats. A row is all 0 if nothing can be said.
//
// If a sample is repeated with probability r, a context visited k times has n
// samples with probability C(n−1, k−1)·(1−r)^k·r^(n−k). The number of contexts with
// n samples is known. From n = 1 on, this gives the number of contexts that were
// visited n times. It is taken to be at most the number visited one time less: most
// contexts are rare. So a context with two samples was typically visited once,
// while a context with thousands has its share of repetitions.
type visits [][few + 1]float64

func newVisits(r float64, at []counted) visits {
	var contexts, visited [few + 1]float64
	for _, c := range at {
		if c.observations <= few {
			contexts[c.observations]++
		}
	}
	v := make(visits, few+1)
	for n := 1; n <= few; n++ {
		left := contexts[n]
		for k := 1; k < n; k++ {
			left -= visited[k] * sampled(n, k, r)
		}
		visited[n] = max(left, 0) / sampled(n, n, r)
		if n > 1 {
			visited[n] = min(visited[n], visited[n-1])
		}
		for k := 1; k <= n; k++ {
			v[n][k] = v[n][k-1] + visited[k]*sampled(n, k, r)
		}
		if all := v[n][n]; all > 0 {
			for k := range v[n] {
				v[n][k] /= all
			}
		}
	}
	return v
}

// sampled returns the probability that a context visited k times has n samples.
func sampled(n, k int, r float64) float64 {
	ways := 1.0
	for i := 1; i < k; i++ {
		ways = ways * float64(n-i) / float64(i)
	}
	return ways * math.Pow(1-r, float64(k)) * math.Pow(r, float64(n-k))
}

// draw draws how often a context with n samples was visited, if that can be
// estimated.
func (v visits) draw(n uint64, r *rand.Rand) (k uint64, known bool) {
	if v == nil || n > few || v[n][n] == 0 {
		return 0, false
	}
	for p := r.Float64(); k < n && v[n][k] <= p; {
		k++
	}
	return k, true
}
