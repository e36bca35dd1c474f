package compare

import "math"

// binomialTest returns the probability of a split of a+b observations into a and b,
// or of a less even one, if each falls to the first with the chance chanceA and to
// the second with chanceB = 1 − chanceA. It is twice the tail of the binomial
// distribution that the split is in, up to 1. Counts need not be whole: between
// whole numbers the tail is the regularized incomplete beta function, P(X ≥ a | n,
// p) = I(p; a, n−a+1).
//
// Both chances are given so that the result is the same, to the last bit, if the
// two sides are exchanged.
func binomialTest(a, b, chanceA, chanceB float64) float64 {
	if chanceA > chanceB {
		a, b, chanceA, chanceB = b, a, chanceB, chanceA
	}
	n := a + b
	switch expected := n * chanceA; {
	case a > expected:
		return min(1, 2*betaInc(chanceA, a, b+1))
	case a < expected && chanceA < rare:
		return min(1, max(0, 2*(1-betaInc(chanceA, a+1, b))))
	case a < expected:
		return min(1, 2*betaInc(chanceB, b, a+1))
	}
	return 1
}

// rare is the chance below which a tail is computed as 1 minus the other tail. One
// minus a chance so small has lost digits, while a probability under 1e-12 needs
// none.
const rare = 1e-7

// manyObservations is a variance. Above it the normal distribution replaces the
// binomial one. In the tail 5 deviations off its error is a hundredth of the
// probability.
const manyObservations = 1e6

// manyRare is a variance. Above it manyRareTail replaces the series for a rare
// chance, which would overflow.
const manyRare = 300

// betaInc returns the regularized incomplete beta function I(x; a, b) for
// 0 ≤ x ≤ 1, a > 0, b > 0 (DLMF 8.17), to about nine digits.
func betaInc(x, a, b float64) float64 {
	if x <= 0 || x >= 1 {
		return math.Ceil(min(max(x, 0), 1))
	}
	n := a + b - 1
	switch above, variance := x > (a+1)/(a+b+2), n*x*(1-x); {
	case x < rare && variance > manyRare:
		return manyRareTail(n*x, a)
	case variance > manyObservations:
		return normalTail((a - 0.5 - n*x) / math.Sqrt(variance))
	case above && x < rare:
		return betaIncSeries(x, a, b)
	case above:
		return 1 - betaIncBelow(1-x, b, a)
	}
	return betaIncBelow(x, a, b)
}

// normalTail returns the probability of more than a number of deviations.
func normalTail(deviations float64) float64 { return math.Erfc(deviations/math.Sqrt2) / 2 }

// manyRareTail returns the probability of a or more rare observations where many
// are expected. It uses Poisson's distribution, whose cube root is nearly normal
// (Wilson and Hilferty, Proc. Natl. Acad. Sci. 17, 1931). In the tail 5 deviations
// off its error is a hundredth of the probability.
func manyRareTail(expected, a float64) float64 {
	return normalTail(3 * math.Sqrt(a) * (1 - 1/(9*a) - math.Cbrt(expected/a)))
}

// betaIncSeries is betaInc as the series DLMF 8.17.8, whose terms are all positive.
// It takes somewhat more terms than the mean of the distribution.
func betaIncSeries(x, a, b float64) float64 {
	term, sum := 1.0, 1.0
	for n := 0.0; term > sum*1e-16; n++ {
		term *= (a + b + n) * x / (a + 1 + n)
		sum += term
	}
	return math.Exp(logBetaTerm(x, a, b)) * sum / a
}

// betaIncBelow is betaInc for an x up to the mean, where the continued fraction
// DLMF 8.17.22 converges within about √max(a, b) steps. It is evaluated from the
// front (the modified Lentz method; Thompson and Barnett, J. Comput. Phys. 64,
// 1986).
func betaIncBelow(x, a, b float64) float64 {
	const (
		precision = 1e-12
		tiny      = 1e-300
		mostSteps = 100_000
	)
	away := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	fraction := d
	for m := 1.0; m < mostSteps; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / away(1+even*d)
		c = away(1 + even/c)
		fraction *= d * c
		d = 1 / away(1+odd*d)
		c = away(1 + odd/c)
		fraction *= d * c
		if math.Abs(d*c-1) < precision {
			break
		}
	}
	return math.Exp(logBetaTerm(x, a, b)) * fraction / a
}

// logBetaTerm returns the logarithm of x^a·(1−x)^b / B(a, b).
func logBetaTerm(x, a, b float64) float64 {
	smaller, _ := math.Lgamma(min(a, b))
	return logGammaRatio(max(a, b), min(a, b)) - smaller + a*math.Log(x) + b*math.Log1p(-x)
}

// logGammaRatio returns the logarithm of Γ(n+k)/Γ(n). For large n the two
// logarithms are so large that their difference would be lost. There it uses
// Stirling's series, to 1/n³.
func logGammaRatio(n, k float64) float64 {
	if n < 1e4 {
		above, _ := math.Lgamma(n + k)
		below, _ := math.Lgamma(n)
		return above - below
	}
	return (n-0.5)*math.Log1p(k/n) + k*math.Log(n+k) - k + (1/(n+k)-1/n)/12
}
