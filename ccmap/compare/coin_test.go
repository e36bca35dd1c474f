package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Heads have the mean of the binomial distribution, and the effect times its
// variance, on both sides of manyTosses. A sticky coin takes some tosses to come
// to that.
func TestHeads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n              uint64
		chance, effect float64
	}{
		{1, 0.5, 1}, {5, 0.5, 1}, {100, 0.5, 1}, {manyTosses, 0.5, 1}, {manyTosses + 1, 0.5, 1}, {1 << 40, 0.5, 1},
		{100, 0.1, 1}, {5000, 0.9, 1}, {manyTosses, 0.5, 3}, {manyTosses + 1, 0.2, 3}, {manyTosses, 0.2, 5},
	} {
		const trials = 4000
		toss := coin{rand.New(rand.NewPCG(test.n, 1)), test.chance, evidence{effect: test.effect}}
		var sum, squares float64
		for range trials {
			off := float64(toss.heads(test.n)) - float64(test.n)*test.chance
			sum += off
			squares += off * off
		}
		deviation := math.Sqrt(float64(test.n) * test.chance * (1 - test.chance) * test.effect)
		if mean := sum / trials / deviation; math.Abs(mean) > 5/math.Sqrt(trials) {
			t.Errorf("%+v: mean is %.3f deviations off", test, mean)
		}
		if ratio := squares / trials / (deviation * deviation); math.Abs(ratio-1) > 0.15 {
			t.Errorf("%+v: variance is %.3f of what it should be", test, ratio)
		}
	}
}

// One toss is one, however sticky the coin.
func TestStickyCoinTossedOnce(t *testing.T) {
	t.Parallel()
	toss := coin{rand.New(rand.NewPCG(1, 1)), 0.25, evidence{effect: 50}}
	heads := uint64(0)
	for range 4000 {
		heads += toss.heads(1)
	}
	if heads < 850 || heads > 1150 {
		t.Errorf("%d of 4000 first tosses are heads, want about 1000", heads)
	}
}

func TestShareIsInRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		toss := coin{
			Rand:     rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
			chance:   rapid.Float64Range(0, 1).Draw(t, "chance"),
			evidence: evidence{effect: rapid.Float64Range(1, 200).Draw(t, "effect")},
		}
		value := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "value")
		n := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "n")
		if got := toss.share(value, n); got > value {
			t.Errorf("share of %d is %d", value, got)
		}
		if got := toss.share(value, 1); got != 0 && got != value {
			t.Errorf("share of an undivided %d is %d", value, got)
		}
	})
}
