package compare

import (
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// ErrEmpty says that a profile has no weight of the kind asked for. It may have
// others: the error that wraps it names them.
var ErrEmpty = errors.New("nothing to compare")

// Compare compares two profiles. It takes O(n log n) time and O(n) space for n
// nodes in both. The snapshots may be the same one.
//
// The error wraps [ErrEmpty] or, where the profiles measure different things,
// [ccmap.ErrUnlike], or says which option makes no sense.
func Compare(a, b *ccmap.Snapshot, o Options) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, fmt.Errorf("compare profiles: %w", err)
	}
	t, err := lay(a, b, o)
	if err != nil {
		return Result{}, fmt.Errorf("compare profiles: %w", err)
	}
	t.sort()
	return t.result(o), nil
}

// tries are two profiles, laid over each other.
type tries struct {
	*union
	stretches
	paths
	a, b   side
	weight Weight
	cutAt  int // frames of a stack; 0: none was cut
}

// lay places both profiles in one trie.
func lay(a, b *ccmap.Snapshot, o Options) (*tries, error) {
	if err := o.checkUnits(a.Meta().Unit, b.Meta().Unit); err != nil {
		return nil, err
	}
	a, b, cutAt := cutAlike(a, b)
	t := &tries{union: newUnion(a.Len() + b.Len()), weight: o.Weight, cutAt: cutAt}
	var err error
	if t.a, err = t.place(a, o); err != nil {
		return nil, fmt.Errorf("first profile: %w", err)
	}
	if t.b, err = t.place(b, o); err != nil {
		return nil, fmt.Errorf("second profile: %w", err)
	}
	t.settle()
	return t, nil
}

// settle finds the stretches, when all profiles are placed.
func (t *tries) settle() {
	of := make([]uint32, t.len())
	t.a.collect(of, t.weight)
	t.b.collect(of, t.weight)
	t.stretches = t.stretch(of)
	for _, s := range []side{t.a, t.b} {
		for i, c := range s.counted {
			s.counted[i].at = of[c.at]
		}
	}
}

// sort finds the paths.
func (t *tries) sort() {
	t.paths = newPaths(t.union, sortPaths(t.union), t.stretchOf, len(t.above))
}

func (t *tries) result(o Options) Result {
	c := t.newCounts()
	t.observe(c)
	sums, overlaps := t.measure(c)
	r := Result{
		Weight:     o.Weight,
		A:          t.describe(t.a),
		B:          t.describe(t.b),
		Pearson:    pearson(sums.methods),
		Spearman:   spearman(sums.methods),
		Coverage:   cover(sums.edges, o.Tau),
		UnionNodes: t.len() - 1,
		CutAt:      t.cutAt,
	}
	r.Methods, r.Edges, r.Contexts = overlaps.methods.result(), overlaps.edges.result(), overlaps.contexts.result()
	t.judge(&r, c, o)
	return r
}

func (t *tries) describe(s side) Profile {
	meta := s.Meta()
	p := Profile{
		Samples:          s.Total().Samples,
		Independent:      s.Total().Samples,
		Weight:           int64(t.weight.of(s.Total())),
		Pruned:           s.prunedPercent(t.weight),
		Start:            meta.Start,
		Duration:         meta.Duration,
		ActivationsExact: s.ActivationsExact(),
	}
	if s.independent < float64(p.Samples) {
		p.Independent = int64(s.independent)
	}
	for i, change := range meta.Interval {
		if i == 0 {
			p.ShortestInterval = change.Interval
		}
		p.ShortestInterval = min(p.ShortestInterval, change.Interval)
		p.LongestInterval = max(p.LongestInterval, change.Interval)
	}
	return p
}
