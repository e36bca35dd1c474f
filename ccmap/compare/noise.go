package compare

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Eight draws give the mean of overlaps, and roughly their deviation. With manySamples
// the deviation is so small that four are enough. [noise.least] allows for the
// uncertainty of few draws.
const (
	draws       = 8
	drawsOfMany = 4
)

// student has, by number of draws, a number of deviations: once in a hundred times, another
// draw is further than that below their mean. It is Student's t at 99 % with
// draws−1 degrees of freedom (4.541 for 4, 2.998 for 8), times √(1+1/draws), as
// both the mean and the deviation are estimated from the draws.
var student = [...]float64{drawsOfMany: 5.077, draws: 3.180}

// noise is the overlap of two profiles of one behaviour.
type noise struct {
	mean, deviation float64
	draws           int
}

// least returns the overlap that noise alone falls below once in a hundred times.
func (n noise) least() float64 { return n.mean - student[n.draws]*n.deviation }

func newNoise(drawn []percents, of func(percents) float64) noise {
	var sum, squares float64
	for _, p := range drawn {
		sum += of(p)
	}
	mean := sum / float64(len(drawn))
	for _, p := range drawn {
		squares += (of(p) - mean) * (of(p) - mean)
	}
	return noise{mean, math.Sqrt(squares / float64(len(drawn)-1)), len(drawn)}
}

// noises are the noise of the three sets of counters.
type noises struct{ methods, edges, contexts noise }

// noises estimates the overlap that the profiles would have if they came from one
// behaviour. Then all samples are from one pool, and chance decides which are A's.
// So every draw assigns each sample at random. This is a permutation test. It needs
// no model of the distribution of contexts, and a context that was seen once stays
// a context that was seen once.
//
// In the pool a profile has the weight of its independent samples. So profiles at
// different intervals compare fairly: a share of time counts as that share, and as
// many samples as it comes from are the evidence for it. A sample also falls to a profile
// with a chance in proportion to the profile's independent samples. So the draws have the
// sizes of the profiles.
func (t *tries) noises(c *counts, seed uint64) noises {
	first, second := t.resampledA(), t.resampledB()
	if t.a.compare(t.b) > 0 {
		first, second = second, first // so that B and A have the same noise as A and B
	}
	random := rand.New(rand.NewPCG(seed, t.a.content+t.b.content))
	drawn := make([]percents, draws)
	if min(t.a.independent, t.b.independent) >= manySamples {
		drawn = drawn[:drawsOfMany]
	}
	for i := range drawn {
		c.clear()
		first.resample(c, random)
		second.resample(c, random)
		_, o := t.measure(c)
		drawn[i] = o.percents()
	}
	return noises{
		newNoise(drawn, func(p percents) float64 { return p.methods }),
		newNoise(drawn, func(p percents) float64 { return p.edges }),
		newNoise(drawn, func(p percents) float64 { return p.contexts }),
	}
}

// Floor is the overlap of two random halves of one profile, in percent, 0 to 100:
// the FloorA of an [Overlap] of each kind.
type Floor struct {
	Methods, Edges, Contexts float64
	Samples                  int64 // of the profile, both halves together
}

// Floors returns the noise floor of one profile: how far it has converged. It takes
// O(n log n) time and O(n) space for n nodes. Any goroutine may call it.
//
// The error wraps [ErrEmpty], or says which option makes no sense.
func Floors(s *ccmap.Snapshot, o Options) (Floor, error) {
	o, err := o.checked()
	if err != nil {
		return Floor{}, fmt.Errorf("find noise floor: %w", err)
	}
	s = s.WithoutLabels()
	t := &tries{union: newUnion(s.Len()), weight: o.Weight}
	if t.a, err = t.place(s, o); err != nil {
		return Floor{}, fmt.Errorf("find noise floor: %w", err)
	}
	t.compress()
	t.sort()
	halves := t.floor(t.a, t.newCounts(), o.Seed)
	return Floor{halves.methods, halves.edges, halves.contexts, s.Total().Samples}, nil
}

// manySamples is a number of independent samples. With more, chance moves an
// overlap by less than about half a point, and few draws are enough.
const manySamples = 10_000

// mostSplits is how often a profile of few samples is split for its floor. Profiles
// with more samples are split less often. So chance moves all floors of a thousand
// samples or more by some 0.2 points, and the cost of splits is bounded.
const mostSplits = 8

// floor measures the overlap of two random halves of a profile: the mean of some
// splits, or of one split if there are many samples.
//
// The halves stand for the samples taken alternately. A map does not keep the order
// of its samples, so each sample falls to a half at random; samples that found the
// same activation again fall together. The samples of a node are taken to weigh the
// same. Weight without samples goes to one half as a whole. By activations each
// call falls at random; calls that one sample found together are taken to be
// independent, which makes that floor somewhat too high. Evicted counters are split
// by edge.
//
// The splits depend only on the seed and on the counts in the profile. So a profile
// has the same floor in every comparison, and no two profiles share their random
// choices.
func (t *tries) floor(s side, c *counts, seed uint64) percents {
	random := resampler{rand.New(rand.NewPCG(seed, s.content)), 0.5, s.sampleSize}
	splits := min(max(int(manySamples/s.independent), 1), mostSplits)
	var sum percents
	for range splits {
		sum = sum.add(t.split(s, c, random))
	}
	return sum.dividedBy(splits)
}

// split measures the overlap of the halves of one split.
func (t *tries) split(s side, c *counts, random resampler) percents {
	c.clear()
	c.add(s, func(k counted) value {
		half := random.share(k.value, k.observations)
		return value{half, k.value - half}
	})
	_, o := t.measure(c)
	return o.percents()
}

// resampler assigns samples to one of two sides at random. Samples that find the
// same activation as the sample before are not independent: they go to the same
// side.
type resampler struct {
	*rand.Rand
	chance float64 // of the first side, 0 to 1
	sampleSize
}

// manyTrials is a number of samples. For more, the normal distribution replaces
// single random choices. Its error is a fraction of the deviation that no overlap
// shows.
const manyTrials = 1 << 10

// first returns how many of n < 2⁶³ samples fall to the first side. A sample that
// is not independent goes where the sample before it went. If there are few, the
// number of independent samples is drawn. Otherwise each sample is independent with
// the same probability.
func (c resampler) first(n uint64) uint64 {
	if n > manyTrials {
		mean := float64(n) * c.chance
		deviation := math.Sqrt(mean * (1 - c.chance) * c.effect)
		first := min(max(math.Round(mean+c.NormFloat64()*deviation), 0), float64(n))
		return min(uint64(first), n) // float64(n) may be more than n
	}
	own, drawn := c.visits.draw(n, c.Rand)
	fresh := 2 / (c.effect + 1)
	first, last := uint64(0), uint64(0)
	for left := n; left > 0; left-- {
		if drawn {
			fresh = float64(own) / float64(left)
		}
		if left == n || fresh == 1 || c.Float64() < fresh {
			last = c.trial()
			own--
		}
		first += last
	}
	return first
}

// trial returns 1 for the first side, 0 for the second.
func (c resampler) trial() uint64 {
	if c.Float64() < c.chance {
		return 1
	}
	return 0
}

// share returns the part of value that falls to the first side, if value is made of
// n equal observations: value·first/n, rounded down. If n is 0, value falls to one
// side as a whole.
func (c resampler) share(value, n uint64) uint64 {
	n = max(n, 1)
	first := c.first(n)
	if n == value {
		return first
	}
	hi, lo := bits.Mul64(value, first)
	share, _ := bits.Div64(hi, lo, n) // fits, as first ≤ n
	return share
}

// unit is the weight of an independent sample in a pool. It makes shares of one
// whole numbers.
const unit = 1 << 20

// most is the largest weight of a pool.
const most = 1 << 62

// pooled is one profile in a pool. Its samples fall to that profile or the other
// one.
type pooled struct {
	side
	stay   float64 // the chance to stay with the own profile
	scale  float64 // units by weight
	placed func(own, other uint64) value
}

func (t *tries) resampledA() pooled {
	return t.pooled(t.a, t.b, func(own, other uint64) value { return value{own, other} })
}

func (t *tries) resampledB() pooled {
	return t.pooled(t.b, t.a, func(own, other uint64) value { return value{other, own} })
}

func (t *tries) pooled(own, other side, placed func(own, other uint64) value) pooled {
	all := own.independent + other.independent
	scale := min(unit, most/all) * own.independent / float64(t.weight.of(own.Total()))
	return pooled{own, own.independent / all, scale, placed}
}

// resample adds one random assignment of the samples to c.
func (d pooled) resample(c *counts, random *rand.Rand) {
	resampler := resampler{random, d.stay, d.sampleSize}
	c.add(d.side, func(k counted) value {
		weight := uint64(min(float64(k.value)*d.scale, most))
		own := resampler.share(weight, k.observations)
		return d.placed(own, weight-own)
	})
}

// compare orders profiles by their counts. It returns 0 only for equal ones.
func (s side) compare(o side) int {
	if s.Snapshot == o.Snapshot {
		return 0
	}
	order := cmp.Or(
		cmp.Compare(s.effect, o.effect),
		s.Total().Compare(o.Total()),
		cmp.Compare(s.Len(), o.Len()),
	)
	for n := range s.Nodes() {
		if order != 0 {
			return order
		}
		m := o.Node(n.ID)
		order = cmp.Or(
			cmp.Compare(n.Parent, m.Parent),
			cmp.Compare(n.Offset, m.Offset),
			compareMethods(s.method(n.Method), o.method(m.Method)),
			n.Self.Compare(m.Self),
		)
	}
	return order
}

// method returns the description of a method, an empty one for NoMethod.
func (s side) method(id ccmap.MethodID) ccmap.Method {
	if id == ccmap.NoMethod {
		return ccmap.Method{}
	}
	return s.Names().At(id)
}

func compareMethods(m, n ccmap.Method) int {
	return cmp.Or(cmp.Compare(m.Name, n.Name), cmp.Compare(m.Signature, n.Signature))
}
