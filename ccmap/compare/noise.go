package compare

import (
	"math"
	"math/rand/v2"
)

// Eight draws tell the mean of overlaps, and their deviation roughly. Those of
// manySamples deviate by so little that four serve. What few draws leave uncertain
// is in [noise.least].
const (
	draws       = 8
	drawsOfMany = 4
)

// student has, by number of draws, how many deviations under their mean another one
// falls once in a hundred times: Student's t at 99 % with draws−1 degrees of freedom
// (4.541 for 4, 2.998 for 8), times √(1+1/draws), as both the mean and the deviation
// are those of the draws.
var student = [...]float64{drawsOfMany: 5.077, draws: 3.180}

// noise is what overlap two profiles of one behaviour have.
type noise struct {
	mean, deviation float64
	draws           int
}

// least returns the overlap that noise alone falls under once in a hundred times.
func (n noise) least() float64 { return n.mean - student[n.draws]*n.deviation }

func newNoise(drawn []percents, of func(percents) float64) noise {
	var sum, squares float64
	for _, p := range drawn {
		sum += of(p)
	}
	mean := sum / float64(len(drawn))
	for _, p := range drawn {
		squares += (of(p) - mean) * (of(p) - mean)
	}
	return noise{mean, math.Sqrt(squares / float64(len(drawn)-1)), len(drawn)}
}

// noises are those of the three sets of counters.
type noises struct{ methods, edges, contexts noise }

// noises asks what the profiles would overlap if they were two of one behaviour.
// Then all samples are of one pool, and which of them are A's is chance: a coin is
// tossed for each, as often as there are draws. This is a permutation test; it
// takes no model of how contexts are distributed, and a context that was seen once
// stays one that was seen once.
//
// In the pool a profile has the weight of its independent samples. So profiles at
// different intervals are fair to each other: a share of time counts as the share
// that it is, and what it is worth as a witness is the samples behind it. A sample
// comes to a profile with a chance in proportion to that weight as well: the draws
// have the sizes of the profiles.
func (t *tries) noises(c *counts, seed uint64) noises {
	first, second := t.aDealt(), t.bDealt()
	if t.a.compare(t.b) > 0 {
		first, second = second, first // so that the noise of B and A is that of A and B
	}
	toss := rand.New(rand.NewPCG(seed, t.a.content+t.b.content))
	drawn := make([]percents, draws)
	if min(t.a.independent, t.b.independent) >= manySamples {
		drawn = drawn[:drawsOfMany]
	}
	for i := range drawn {
		c.clear()
		first.deal(c, toss)
		second.deal(c, toss)
		_, o := t.measure(c)
		drawn[i] = o.percents()
	}
	return noises{
		newNoise(drawn, func(p percents) float64 { return p.methods }),
		newNoise(drawn, func(p percents) float64 { return p.edges }),
		newNoise(drawn, func(p percents) float64 { return p.contexts }),
	}
}
