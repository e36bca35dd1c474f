package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// rootMeanSquare returns the size of typical errors.
func rootMeanSquare(errors []float64) float64 {
	squares := make([]float64, len(errors))
	for i, e := range errors {
		squares[i] = e * e
	}
	return math.Sqrt(campaign.Mean(squares))
}

// worst returns the error farthest from 0.
func worst(errors []float64) float64 {
	return slices.MaxFunc(errors, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
}

// sized is an overlap of profiles with a number of samples each.
type sized struct {
	samples float64
	overlap float64 // percent
}

// law is the decrease of the shortfall of overlaps from 100 % with the number of samples
// n: scale·n^exponent.
//
// For a counter with weight w, n samples see w ± √(w/n), and two such figures differ by
// √(4w/πn) on average. The shortfall is half the sum of these differences, and falls with
// √n, for counters that n samples are enough for. The more weight is spread over counters
// that most samples of this number miss, the slower the shortfall falls.
type law struct {
	scale    float64 // percent, at one sample
	exponent float64 // −½ with enough samples, greater with too few
	points   int     // fitted ones
}

// mostShortfall is the largest fitted shortfall, in percent.
const mostShortfall = 40

// fit finds the law of the overlaps, by least squares of the logarithms. It needs two
// points or more within mostShortfall; otherwise all is NaN.
func fit(overlaps []sized) law {
	var x, y []float64
	for _, o := range overlaps {
		if s := 100 - o.overlap; s > 0 && s <= mostShortfall && o.samples > 0 {
			x = append(x, math.Log(o.samples))
			y = append(y, math.Log(s))
		}
	}
	if len(x) < 2 {
		return law{math.NaN(), math.NaN(), len(x)}
	}
	mx, my := campaign.Mean(x), campaign.Mean(y)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	exponent := xy / xx
	return law{math.Exp(my - exponent*mx), exponent, len(x)}
}

// at returns the overlap of profiles of n samples, percent.
func (l law) at(n float64) float64 { return 100 - l.scale*math.Pow(n, l.exponent) }

// samples returns the number of samples for an overlap, in percent.
func (l law) samples(overlap float64) float64 {
	return math.Pow((100-overlap)/l.scale, 1/l.exponent)
}

// foretold returns the overlap of two whole profiles whose halves overlap by a floor, if
// the shortfall falls with an exponent of the number of samples.
func foretold(floor, exponent float64) float64 {
	return 100 - (100-floor)*math.Pow(2, exponent)
}

// Exponents for foretold: for enough samples, and a typical one of contexts.
const (
	squareRoot = -1. / 2
	cubeRoot   = -1. / 3
)

// interpolate returns the overlap at a number of samples between the points, which are
// sorted by it: on the line through their neighbors, over √n. Beyond the points it
// returns the nearest one's overlap.
func interpolate(points []sized, n float64) float64 {
	i := slices.IndexFunc(points, func(p sized) bool { return p.samples >= n })
	switch i {
	case -1:
		return points[len(points)-1].overlap
	case 0:
		return points[0].overlap
	}
	a, b := points[i-1], points[i]
	part := (1/math.Sqrt(n) - 1/math.Sqrt(a.samples)) / (1/math.Sqrt(b.samples) - 1/math.Sqrt(a.samples))
	return a.overlap + part*(b.overlap-a.overlap)
}
