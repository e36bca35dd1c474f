package compare

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// floor measures what two random halves of a profile overlap. It overwrites x.
//
// The halves stand for the samples taken alternately: a map does not keep the
// order of its samples, so a coin is tossed for each. The samples of a node
// are taken to weigh the same. Weight without samples, which foreign formats
// may hold, goes to one half whole. By activations the coin is tossed for each
// call; calls that one sample found together are taken to be independent,
// which makes that floor somewhat too high.
//
// The split depends on the profile and the seed only, so that a profile has
// the same floor in every comparison.
func (t *tries) floor(p side, x values, seed uint64) overlaps {
	clear(x)
	toss := coin{rand.New(rand.NewPCG(seed, 0))}
	for n := range p.Nodes() {
		value := t.weight.of(n.Self)
		if value == 0 {
			continue
		}
		half := toss.share(value, t.tossed(n.Self, value))
		at := &x[p.placed[n.ID]]
		at.a += half
		at.b += value - half
	}
	t.include(x)
	return t.overlaps(x, t.totals(x))
}

// tossed returns how many things of their own a value is made of.
func (t *tries) tossed(c ccmap.Counters, value uint64) uint64 {
	if t.weight == ByTime {
		return max(uint64(c.Samples), 1)
	}
	return value
}

// coin is a fair one.
type coin struct{ *rand.Rand }

// share returns the part of value that falls to one half, if value is made of
// n equal things, n > 0: value·heads/n, rounded down.
func (c coin) share(value, n uint64) uint64 {
	heads := c.heads(n)
	if n == value {
		return heads
	}
	hi, lo := bits.Mul64(value, heads)
	share, _ := bits.Div64(hi, lo, n) // fits, as heads ≤ n
	return share
}

// manyTosses is where the normal distribution stands in for the binomial, to
// within a fraction of its deviation that no overlap shows.
const manyTosses = 1 << 12

// heads returns how many of n < 2⁶³ tosses are heads. Up to manyTosses, each is
// a random bit.
func (c coin) heads(n uint64) uint64 {
	if n > manyTosses {
		off := c.NormFloat64() * math.Sqrt(float64(n)) / 2
		return uint64(min(max(int64(n/2)+int64(math.Round(off)), 0), int64(n)))
	}
	var heads int
	for ; n >= 64; n -= 64 {
		heads += bits.OnesCount64(c.Uint64())
	}
	if n > 0 {
		heads += bits.OnesCount64(c.Uint64() >> (64 - n))
	}
	return uint64(heads)
}
