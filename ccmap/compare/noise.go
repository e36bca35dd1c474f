package compare

import (
	"math"
	"math/rand/v2"
)

// draws is how often two profiles of one behaviour are drawn. Eight tell the mean
// of their overlaps, and their deviation roughly; the price of that is in
// [noiseDeviations].
const draws = 8

// noiseDeviations says how far under the mean of the draws the overlap of two
// profiles of one behaviour falls once in a hundred times: Student's t at 99 % with
// draws−1 degrees of freedom, 2.998, times √(1+1/draws), as both the mean and the
// deviation are those of few draws.
const noiseDeviations = 3.180

// noise is what overlap two profiles of one behaviour have.
type noise struct{ mean, deviation float64 }

// least returns the overlap that noise alone falls under once in a hundred times.
func (n noise) least() float64 { return n.mean - noiseDeviations*n.deviation }

func newNoise(overlaps []float64) noise {
	var sum, squares float64
	for _, o := range overlaps {
		sum += o
	}
	mean := sum / float64(len(overlaps))
	for _, o := range overlaps {
		squares += (o - mean) * (o - mean)
	}
	return noise{mean, math.Sqrt(squares / float64(len(overlaps)-1))}
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
	toss := rand.New(rand.NewPCG(seed, 1))
	var methods, edges, contexts [draws]float64
	for i := range draws {
		c.clear()
		first.deal(c, toss)
		second.deal(c, toss)
		_, o := t.measure(c)
		methods[i], edges[i], contexts[i] = o.methods.percent(), o.edges.percent(), o.contexts.percent()
	}
	return noises{newNoise(methods[:]), newNoise(edges[:]), newNoise(contexts[:])}
}
