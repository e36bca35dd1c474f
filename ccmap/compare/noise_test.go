package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Another overlap falls under the least of some draws once in a hundred times,
// however few they are.
func TestNoiseLeast(t *testing.T) {
	t.Parallel()
	const trials = 100_000
	r := rand.New(rand.NewPCG(1, 1))
	overlap := func() float64 { return 80 + 3*r.NormFloat64() }
	for _, n := range []int{drawsOfMany, draws} {
		under := 0
		drawn := make([]percents, n)
		for range trials {
			for i := range drawn {
				drawn[i].contexts = overlap()
			}
			if overlap() < newNoise(drawn, func(p percents) float64 { return p.contexts }).least() {
				under++
			}
		}
		if rate := float64(under) / trials; math.Abs(rate-0.01) > 0.0015 {
			t.Errorf("%d draws: %.4f of overlaps are under the least, want 0.01", n, rate)
		}
	}
}

// From manySamples on, four draws are taken in place of eight, and one split:
// they say the same.
func TestManySamplesNeedFewDraws(t *testing.T) {
	t.Parallel()
	few, many := flat(100, manySamples/100-1), flat(100, manySamples/100)
	a, errA := Compare(few, few, Options{})
	b, errB := Compare(many, many, Options{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	for _, got := range []struct{ few, many float64 }{
		{a.Contexts.Floor, b.Contexts.Floor}, {a.Contexts.Expected, b.Contexts.Expected},
	} {
		if math.Abs(got.few-got.many) > 2 || got.many > 99 {
			t.Errorf("%.2f, and of some samples more %.2f", got.few, got.many)
		}
	}
}
