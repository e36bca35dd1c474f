package compare

import (
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// explicitTail returns P(X ≥ a) of the binomial distribution, summed up exactly.
func explicitTail(a, n, numerator, denominator int64) float64 {
	chance := big.NewRat(numerator, denominator)
	other := new(big.Rat).Sub(big.NewRat(1, 1), chance)
	power := func(r *big.Rat, n int64) *big.Rat {
		e := big.NewInt(n)
		return new(big.Rat).SetFrac(new(big.Int).Exp(r.Num(), e, nil), new(big.Int).Exp(r.Denom(), e, nil))
	}
	sum := new(big.Rat)
	for k := a; k <= n; k++ {
		term := new(big.Rat).SetInt(new(big.Int).Binomial(n, k))
		term.Mul(term, power(chance, k))
		sum.Add(sum, term.Mul(term, power(other, n-k)))
	}
	tail, _ := sum.Float64()
	return tail
}

func TestBinomialTestEqualsExplicitTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 120).Draw(t, "n")
		a := rapid.Int64Range(0, n).Draw(t, "a")
		numerator := rapid.Int64Range(1, 99).Draw(t, "chance")
		chance := float64(numerator) / 100
		got := binomialTest(float64(a), float64(n-a), chance, float64(100-numerator)/100)
		want := 1.0
		switch {
		case 100*a > n*numerator:
			want = min(1, 2*explicitTail(a, n, numerator, 100))
		case 100*a < n*numerator:
			want = min(1, 2*explicitTail(n-a, n, 100-numerator, 100))
		}
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%d of %d with chance %v: %v, want %v", a, n, chance, got, want)
		}
	})
}

// Small counts are summed exactly, large ones use the normal distribution. There is no step
// between the two, and no count takes long.
func TestBinomialTestOfMany(t *testing.T) {
	t.Parallel()
	for _, n := range []float64{3.9e6, 4.1e6, 1e12, 1e18} {
		deviation := math.Sqrt(n) / 2
		got := binomialTest(n/2+3*deviation, n/2-3*deviation, 0.5, 0.5)
		if want := math.Erfc(3 / math.Sqrt2); math.Abs(got-want) > 0.01*want {
			t.Errorf("3 deviations of %g: %v, want %v", n, got, want)
		}
	}
	for _, chance := range []float64{1e-3, 1e-12, 1e-18} {
		p := binomialTest(40, 10/chance, chance, 1-chance)
		if !(p > 1e-13 && p < 1e-10) { // Poisson: P(X ≥ 40 | 10) = 5e-13 or so
			t.Errorf("40 where 10 are expected, of %g: %v", 10/chance, p)
		}
		p = binomialTest(5, 10/chance, chance, 1-chance)
		if want := 2 * 0.067086; math.Abs(p-want) > 0.002 { // Poisson: P(X ≤ 5 | 10)
			t.Errorf("5 where 10 are expected, of %g: %v, want %v", 10/chance, p, want)
		}
	}
}

// summedTail returns P(X ≥ a) as a sum over all likely values. It computes each
// probability, in proportion to the probability of the mean, from the one before.
func summedTail(a, n, chance float64) float64 {
	mean := math.Floor(n * chance)
	far := 20 * math.Sqrt(n*chance*(1-chance))
	odds := chance / (1 - chance)
	var tail, all float64
	add := func(k, p float64) {
		all += p
		if k >= a {
			tail += p
		}
	}
	for k, p := mean, 1.0; k <= min(n, mean+far); k++ {
		add(k, p)
		p *= (n - k) / (k + 1) * odds
	}
	for k, p := mean, 1.0; k > max(0, mean-far); k-- {
		p *= k / (n - k + 1) / odds
		add(k-1, p)
	}
	return tail / all
}

// The test equals the sum for any count and any chance. Only probabilities under one in a
// million differ, by a hundredth at most.
func TestBinomialTestEqualsSummedTail(t *testing.T) {
	t.Parallel()
	for _, n := range []float64{1e4, 3.9e6, 4.1e6, 1e7, 1e9, 1e11} {
		for _, chance := range []float64{1e-8, 9e-8, 1.1e-7, 1e-5, 0.01, 0.3, 0.5} {
			for _, deviations := range []float64{-5, -3, -1, 1, 3, 5} {
				mean, deviation := n*chance, math.Sqrt(n*chance*(1-chance))
				a := math.Round(mean + deviations*deviation)
				if mean < 1 || a < 0 || deviation > 50_000 {
					continue
				}
				want := 2 * summedTail(a, n, chance)
				if deviations < 0 {
					want = 2 * (1 - summedTail(a+1, n, chance))
				}
				got := binomialTest(a, n-a, chance, 1-chance)
				if math.Abs(got-min(1, want)) > 0.015*want+1e-11 {
					t.Errorf("%g of %g with chance %g: %g, want %g", a, n, chance, got, want)
				}
			}
		}
	}
}

// A result that was the only possible one has probability 1.
func TestBinomialTestAtTheEdges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b, chance, want float64 }{
		{0, 0, 0.5, 1}, {0, 0, 1e-18, 1}, {0, 7, 1e-18, 1}, {7, 0, 1e-18, 0},
		{1, 0, 0.5, 1}, {0, 10, 0.5, 2. / 1024}, {10, 0, 0.5, 2. / 1024}, {5, 5, 0.5, 1},
		{1 << 62, 1 << 62, 0.5, 1}, {1 << 62, 0, 0.5, 0}, {0, 1 << 62, 0.5, 0},
	} {
		got := binomialTest(test.a, test.b, test.chance, 1-test.chance)
		if math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// Exchanging the sides changes no bit of the probability, which is from 0 to 1.
func TestBinomialTestIsSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.OneOf(rapid.Float64Range(0, 30), rapid.Float64Range(0, 1e18))
		a, b := count.Draw(t, "a"), count.Draw(t, "b")
		x, y := rapid.Float64Range(1e-9, 1e9).Draw(t, "x"), rapid.Float64Range(1e-9, 1e9).Draw(t, "y")
		p, q := binomialTest(a, b, x/(x+y), y/(x+y)), binomialTest(b, a, y/(x+y), x/(x+y))
		if p != q || !(p >= 0 && p <= 1) {
			t.Errorf("%v and %v", p, q)
		}
	})
}

// The table was worked out by hand: the least of four probabilities is multiplied by 4, the
// next by 3 and so on, and no result is less than the one before it.
func TestHolm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ p, want []float64 }{
		{nil, nil},
		{[]float64{0.3}, []float64{0.3}},
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.5, 0.6, 0.001}, []float64{1, 1, 0.003}},
		{[]float64{0.02, 0.02}, []float64{0.04, 0.04}},
	} {
		got := append([]float64(nil), test.p...)
		holm(got)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Errorf("holm(%v):\n%s", test.p, diff)
		}
	}
}
