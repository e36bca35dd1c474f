package compare

import (
	"fmt"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Floor is how far two random halves of one profile overlap, in percent, 0 to
// 100: the FloorA of an [Overlap] of each kind.
type Floor struct {
	Methods, Edges, Contexts float64
	Samples                  int64 // behind the profile, both halves together
}

// Floors returns the noise floor of one profile: how settled it is. It takes
// O(n log n) time and O(n) space for n nodes. Any goroutine may call it.
//
// The error wraps [ErrEmpty], or says which option makes no sense.
func Floors(s *ccmap.Snapshot, o Options) (Floor, error) {
	o, err := o.checked()
	if err != nil {
		return Floor{}, fmt.Errorf("find noise floor: %w", err)
	}
	t := &tries{union: newUnion(s.Len()), weight: o.Weight}
	if t.a, err = t.place(s, o); err != nil {
		return Floor{}, fmt.Errorf("find noise floor: %w", err)
	}
	t.settle()
	t.sort()
	halves := t.floor(t.a, t.newCounts(), o.Seed)
	return Floor{halves.methods, halves.edges, halves.contexts, s.Total().Samples}, nil
}

// manySamples is the number of independent samples from which on luck moves an
// overlap by less than half a point or so: there chance need not be asked often.
const manySamples = 10_000

// mostSplits is how often a profile of few samples is split for its floor. Others
// are split less often, the more samples they have: luck moves all floors of a
// thousand samples or more by some 0.2 points then, and what splits cost is bounded.
const mostSplits = 8

// floor measures what two random halves of a profile overlap: the mean of some
// splits, of many samples what one has.
//
// The halves stand for the samples taken alternately: a map does not keep the
// order of its samples, so a coin is tossed for each, or once for those that found
// the same activation again. The samples of a node are taken to weigh the same.
// Weight without samples goes to one half whole. By activations the coin is tossed
// for each call; calls that one sample found together are taken to be independent,
// which makes that floor somewhat too high. What was pruned is tossed for by edge.
//
// The splits depend on the seed and on what is in the profile only. So a profile
// has the same floor in every comparison, and no two profiles share their luck.
func (t *tries) floor(s side, c *counts, seed uint64) percents {
	toss := coin{rand.New(rand.NewPCG(seed, s.content)), 0.5, s.evidence}
	splits := min(max(int(manySamples/s.independent), 1), mostSplits)
	var sum percents
	for range splits {
		sum = sum.add(t.split(s, c, toss))
	}
	return sum.dividedBy(splits)
}

// split measures what the halves of one split overlap.
func (t *tries) split(s side, c *counts, toss coin) percents {
	c.clear()
	c.add(s, func(k counted) value {
		half := toss.share(k.value, k.things)
		return value{half, k.value - half}
	})
	_, o := t.measure(c)
	return o.percents()
}
