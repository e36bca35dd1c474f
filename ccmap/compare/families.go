package compare

import (
	"cmp"
	"math"
	"slices"
)

// Family is a set of contexts that have the same counts, as they end in the same
// places: sub-paths of one path that end with its innermost frame.
type Family struct {
	Path   []Frame // the longest of them, innermost frame first
	Paths  uint64  // the number of contexts, from 1
	Points float64 // its part of the 100 − Contexts.Percent points of difference between the profiles

	// ShareA and ShareB are percentages of the profiles' weights; under recursion,
	// a sample counts once for each occurrence of the path.
	ShareA   float64
	ShareB   float64
	SamplesA int64 // that the shares were computed from; by activations, calls
	SamplesB int64
}

// mostFamilies is how many families a verdict names.
const mostFamilies = 10

// families returns the families that account for most of the difference between 100
// and the overlap of contexts: Σ over all counters of |a/A − b/B|/2. It overwrites
// c.
func (t *tries) families(c *counts) []Family {
	t.countValues(c)
	found := t.largest(c)
	families := make([]Family, len(found))
	for i, f := range found {
		families[i] = Family{
			Path:   t.framesOf(f),
			Paths:  f.paths,
			Points: f.points,
			ShareA: 100 * f.sum.a.float() / float64(t.weight.of(t.a.Total())),
			ShareB: 100 * f.sum.b.float() / float64(t.weight.of(t.b.Total())),
		}
	}
	t.countObservations(c)
	t.include(c.nodes)
	methods := t.total(c).methods
	for i, f := range found {
		observations := methods[f.method]
		if f.end > 0 {
			observations = t.sum(c.nodes, f.first, f.end)
		}
		families[i].SamplesA, families[i].SamplesB = observations.a.int64(), observations.b.int64()
	}
	return families
}

// family is a Family with the places of its nodes.
type family struct {
	path
	first, end uint32 // places of the nodes where it ends; 0: all nodes of the method
	method     uint32
	sum        pair
	paths      uint64
	points     float64
}

func (t *tries) framesOf(f family) []Frame {
	if f.end == 0 {
		return []Frame{t.declaration(f.method)}
	}
	return t.frames(f.path)
}

// sum returns the sum of values from one place up to another.
func (t *tries) sum(x values, first, end uint32) (sum pair) {
	for _, s := range t.compressedAt[first:end] {
		sum = sum.add(x.at(s))
	}
	return sum
}

// largest returns the families with the most points, the largest first.
func (t *tries) largest(c *counts) []family {
	best := ranking{tries: t, all: t.include(c.nodes)}
	places, own := t.ownPaths()
	for s, place := range places {
		if place > 0 {
			whole := path{t.nodes[place], t.depth[t.nodes[place]] - 1}
			best.offer(family{path: whole, first: place, end: place + 1, sum: c.nodes.at(uint32(s)), paths: own[s]})
		}
	}
	t.eachRun(c.nodes, func(r run, end uint32, paths uint64) {
		shared := path{t.nodes[r.first], r.length}
		best.offer(family{path: shared, first: r.first, end: end, sum: r.sum, paths: paths})
	})
	for m, sum := range t.total(c).methods {
		best.offer(family{method: uint32(m), sum: sum, paths: 1})
	}
	return best.families
}

// ownPaths returns, by compressed path, how many paths end in it and nowhere else,
// and the place of the last node where one does; 0 if there is no such path.
func (t *tries) ownPaths() (last []uint32, own []uint64) {
	joined := t.joined()
	last, own = make([]uint32, len(joined)), make([]uint64, len(joined))
	for place := 1; place < len(t.nodes); place++ {
		v, s := t.nodes[place], joined[t.compressedAt[place]]
		paths := t.depth[v] - 1 - t.common(place)
		own[s] += uint64(paths)
		if paths > 0 && (last[s] == 0 || t.depth[v] > t.depth[t.nodes[last[s]]]) {
			last[s] = uint32(place)
		}
	}
	return last, own
}

// ranking keeps the families with the most points, in their order.
type ranking struct {
	*tries
	all      pair
	families []family
}

func (r *ranking) offer(f family) {
	difference := f.sum.a.float()/r.all.a.float() - f.sum.b.float()/r.all.b.float()
	f.points = 100 * float64(f.paths) * math.Abs(difference) / 2
	full := len(r.families) == mostFamilies
	if f.points == 0 || full && r.compare(f, r.families[mostFamilies-1]) > 0 {
		return
	}
	if full {
		r.families = r.families[:mostFamilies-1]
	}
	at, _ := slices.BinarySearchFunc(r.families, f, r.compare)
	r.families = slices.Insert(r.families, at, f)
}

// compare puts the family with more points first, and equal ones in the order of
// their paths.
func (r *ranking) compare(f, g family) int {
	if order := cmp.Or(cmp.Compare(g.points, f.points), cmp.Compare(g.paths, f.paths)); order != 0 {
		return order
	}
	return slices.CompareFunc(r.framesOf(f), r.framesOf(g), Frame.compare)
}
