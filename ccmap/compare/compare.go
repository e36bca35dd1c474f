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
// The error wraps [ErrEmpty], or says which option makes no sense.
func Compare(a, b *ccmap.Snapshot, o Options) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, fmt.Errorf("compare profiles: %w", err)
	}
	t, err := lay(a, b, o)
	if err != nil {
		return Result{}, fmt.Errorf("compare profiles: %w", err)
	}
	return t.result(o), nil
}

// tries are two profiles, laid over each other.
type tries struct {
	*union
	order  order
	a, b   side
	weight Weight
}

// side is one profile.
type side struct {
	*ccmap.Snapshot
	placed []uint32 // by node of the profile: its node of the union
}

// lay places both profiles in one trie, and sorts it.
func lay(a, b *ccmap.Snapshot, o Options) (*tries, error) {
	t := &tries{union: newUnion(a.Len() + b.Len()), weight: o.Weight}
	var err error
	if t.a, err = t.place(a, o); err != nil {
		return nil, fmt.Errorf("first profile: %w", err)
	}
	if t.b, err = t.place(b, o); err != nil {
		return nil, fmt.Errorf("second profile: %w", err)
	}
	t.order = sortPaths(t.union)
	return t, nil
}

// place lays a profile over the union. Without weight there, it returns an error.
func (t *tries) place(s *ccmap.Snapshot, o Options) (side, error) {
	if err := weighed(s, o.Weight); err != nil {
		return side{}, err
	}
	p := side{s, t.add(s, o)}
	for n := range s.Nodes() {
		if p.placed[n.ID] != 0 && o.Weight.of(n.Self) > 0 {
			return p, nil
		}
	}
	return side{}, fmt.Errorf("%w by %v: all of it is absorbed", ErrEmpty, o.Weight)
}

// weighed returns an error for a profile without weight.
func weighed(s *ccmap.Snapshot, w Weight) error {
	if c := s.Total(); w.of(c) == 0 {
		return fmt.Errorf("%w by %v: it has %d samples, %d ns and %d activations",
			ErrEmpty, w, c.Samples, c.Time, c.Activations)
	}
	return nil
}

func (t *tries) result(o Options) Result {
	x := t.values()
	sums := t.totals(x)
	overlaps := t.overlaps(x, sums)
	r := Result{
		Weight:     o.Weight,
		A:          t.describe(t.a),
		B:          t.describe(t.b),
		Pearson:    pearson(sums.methods),
		Spearman:   spearman(sums.methods),
		Coverage:   cover(sums.edges, o.Tau),
		UnionNodes: t.len() - 1,
	}
	floorA, floorB := t.floor(t.a, x, o.Seed), t.floor(t.b, x, o.Seed)
	r.Methods = newOverlap(overlaps.methods, floorA.methods, floorB.methods)
	r.Edges = newOverlap(overlaps.edges, floorA.edges, floorB.edges)
	r.Contexts = newOverlap(overlaps.contexts, floorA.contexts, floorB.contexts)
	return r
}

func (t *tries) describe(s side) Profile {
	meta := s.Meta()
	p := Profile{
		Samples:          s.Total().Samples,
		Weight:           int64(t.weight.of(s.Total())),
		Start:            meta.Start,
		Duration:         meta.Duration,
		ActivationsExact: s.ActivationsExact(),
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

func newOverlap(o, floorA, floorB overlap) Overlap {
	a, b := floorA.percent(), floorB.percent()
	return Overlap{
		Percent:  o.percent(),
		Floor:    min(a, b),
		FloorA:   a,
		FloorB:   b,
		Counters: o.counters,
	}
}

// values returns both profiles' values.
func (t *tries) values() values {
	x := make(values, t.len())
	for n := range t.a.Nodes() {
		x[t.a.placed[n.ID]].a += t.weight.of(n.Self)
	}
	for n := range t.b.Nodes() {
		x[t.b.placed[n.ID]].b += t.weight.of(n.Self)
	}
	t.include(x)
	return x
}

// include adds to every node what its descendants have, where the weight asks
// for it. Of node 0 nobody takes the sum: it stands for no method.
func (t *tries) include(x values) {
	if !t.weight.inclusive() {
		return
	}
	for v := len(x) - 1; v > 0; v-- {
		above := &x[t.parent[v]]
		above.a += x[v].a
		above.b += x[v].b
	}
}
