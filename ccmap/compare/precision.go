package compare

import (
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Precision says how far the shares of one sampled profile can be trusted. Samples count as far as they are independent
// of each other (see [Profile]).
type Precision struct {
	weight Weight
	total  float64 // of the profile, in the weight
	all    float64 // samples of the profile
	effect float64 // how many samples say as much as an independent one
}

// PrecisionOf returns the precision of the shares of a profile by time or samples. It takes O(1) time.
func PrecisionOf(s *ccmap.Snapshot, w Weight) Precision {
	c := s.Total()
	return Precision{w, float64(w.of(c)), float64(w.observations(c)), designEffect(s.Meta(), w)}
}

// deviations95 is the number of deviations that 95 % of a normal distribution lie within.
const deviations95 = 1.959964

// Interval returns the 95 % interval of the share of an item with such counts, in percent. A sample counts once in it.
// The interval is Wilson's (J. Am. Stat. Assoc. 22, 1927): it holds for small shares, too. Nothing sampled: 0 to 100.
func (p Precision) Interval(c ccmap.Counters) (low, high float64) {
	n, value := p.independentLike(c), float64(p.weight.of(c))
	if n == 0 {
		return 0, 100
	}
	const z = deviations95
	share := value / p.total
	middle, half := share+z*z/(2*n), z*math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	scale := 100 / (1 + z*z/n)
	return max(0, min(scale*(middle-half), 100*share)), min(100, max(scale*(middle+half), 100*share)) // despite rounding
}

// Alike returns the probability that chance puts two items with such counts as far apart as they are, or further, if
// their shares are the same. No sample may count for both items. The test is the one of [Differences], for items of one
// profile: it is not known, and the probability is 1, under ten independent samples in both together.
func (p Precision) Alike(a, b ccmap.Counters) (probability float64, known bool) {
	x, y := float64(p.weight.observations(a))/p.effect, float64(p.weight.observations(b))/p.effect
	if x+y < leastObservations {
		return 1, false
	}
	allX, allY := p.independentLike(a), p.independentLike(b)
	return binomialTest(x, y, allX/(allX+allY), allY/(allX+allY)), true
}

// independentLike returns how many independent samples the profile would have if all weighed as much as the samples of
// an item.
func (p Precision) independentLike(c ccmap.Counters) float64 {
	value, observations := float64(p.weight.of(c)), float64(p.weight.observations(c))
	if value == 0 || observations == 0 {
		return p.all / p.effect
	}
	return p.total / value * observations / p.effect
}
