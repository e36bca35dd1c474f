package campaign

import (
	"math"
	"slices"
)

// Interval is a middle with its 95 % confidence interval.
type Interval struct{ Low, Middle, High float64 }

// TrimmedMeanOf returns the mean of the values without the lowest and the highest fifth, with
// the interval of Tukey and McLaughlin (1963). Windows in which a shared machine does something
// else are far off: they would decide the mean of all. Fewer than two values have no interval:
// it is infinite.
func TrimmedMeanOf(values []float64) Interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	cut := n / 5
	kept := sorted[cut : n-cut]
	m, half := Mean(kept), math.Inf(1)
	if n > 1 {
		squares := float64(n-1) * math.Pow(Deviation(winsorized(sorted, cut)), 2)
		h := float64(len(kept))
		half = student(len(kept)-1) * math.Sqrt(squares/h/(h-1))
	}
	return Interval{m - half, m, m + half}
}

// winsorized returns sorted values, of which as many as are cut at each end are as large as
// the next.
func winsorized(sorted []float64, cut int) []float64 {
	w := slices.Clone(sorted)
	for i := range cut {
		w[i], w[len(w)-1-i] = sorted[cut], sorted[len(w)-1-cut]
	}
	return w
}

// Half returns half the width.
func (i Interval) Half() float64 { return (i.High - i.Low) / 2 }

// MedianOf returns the median with the interval of the sign test, for any distribution:
// the ranks k and n+1-k hold the median unless fewer than k of n fair coins fall on one
// side. Below six values the whole range has less than 95 %.
func MedianOf(values []float64) Interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Interval{}
	}
	k := medianRank(n)
	return Interval{sorted[k-1], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-k]}
}

// medianRank returns the largest k, at least 1, with P(B < k) <= 2.5 % for B
// binomial of n fair coins.
func medianRank(n int) int {
	probability, below := math.Pow(0.5, float64(n)), 0.0
	for k := 0; ; k++ {
		below += probability
		if below > 0.025 {
			return max(1, k)
		}
		probability *= float64(n-k) / float64(k+1)
	}
}

// Mean returns the mean of the values.
func Mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Deviation returns the estimated standard deviation of the values' distribution; 0 for
// fewer than two.
func Deviation(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	m := Mean(values)
	var squares float64
	for _, v := range values {
		squares += (v - m) * (v - m)
	}
	return math.Sqrt(squares / float64(len(values)-1))
}

// Median returns the median of the values, which it does not change.
func Median(values []float64) float64 { return MedianOf(values).Middle }

// student returns the 97.5 % quantile of Student's t, by the expansion of Cornish and
// Fisher (Abramowitz and Stegun 26.7.5); exact below three degrees of freedom, and within
// 0.03 from there on.
func student(freedom int) float64 {
	switch freedom {
	case 1:
		return 12.706
	case 2:
		return 4.303
	}
	const z = 1.959964
	f := float64(freedom)
	z3, z5, z7 := z*z*z, z*z*z*z*z, z*z*z*z*z*z*z
	return z + (z3+z)/4/f + (5*z5+16*z3+3*z)/96/f/f + (3*z7+19*z5+17*z3-15*z)/384/f/f/f
}
