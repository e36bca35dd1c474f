package compare

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// coin is tossed for samples. It may be a sticky one: samples that find what the
// last one found are no witnesses of their own.
type coin struct {
	*rand.Rand
	chance float64 // of heads, 0 to 1
	evidence
}

// manyTosses is where the normal distribution stands in for the coin's, to
// within a fraction of its deviation that no overlap shows.
const manyTosses = 1 << 10

// heads returns how many of n < 2⁶³ tosses are heads. Those that are none of their
// own fall as the one before. Which these are is drawn, or, of more than few, each
// is one with the same probability.
func (c coin) heads(n uint64) uint64 {
	if n > manyTosses {
		mean := float64(n) * c.chance
		deviation := math.Sqrt(mean * (1 - c.chance) * c.effect)
		heads := min(max(math.Round(mean+c.NormFloat64()*deviation), 0), float64(n))
		return min(uint64(heads), n) // float64(n) may be more than n
	}
	own, drawn := c.visits.draw(n, c.Rand)
	fresh := 2 / (c.effect + 1)
	heads, last := uint64(0), uint64(0)
	for left := n; left > 0; left-- {
		if drawn {
			fresh = float64(own) / float64(left)
		}
		if left == n || fresh == 1 || c.Float64() < fresh {
			last = c.toss()
			own--
		}
		heads += last
	}
	return heads
}

// toss returns 1 for heads.
func (c coin) toss() uint64 {
	if c.Float64() < c.chance {
		return 1
	}
	return 0
}

// share returns the part of value that falls to heads, if value is made of n
// equal things: value·heads/n, rounded down. Of no things, value falls whole.
func (c coin) share(value, n uint64) uint64 {
	n = max(n, 1)
	heads := c.heads(n)
	if n == value {
		return heads
	}
	hi, lo := bits.Mul64(value, heads)
	share, _ := bits.Div64(hi, lo, n) // fits, as heads ≤ n
	return share
}
