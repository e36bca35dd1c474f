package compare

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// counts are the values of one observation, or of one random draw, of two profiles.
type counts struct {
	nodes   values // by compressed path; at first the counts of its last node alone
	evicted values // by edge, of pruned nodes; nil where nothing was pruned
	sums    totals // scratch for both totals
}

// values are the values of both profiles. They lie side by side, as they are read at
// random.
type values []value

type value struct{ a, b uint64 }

func (x values) at(i uint32) pair { return pair{wide{lo: x[i].a}, wide{lo: x[i].b}} }

func (t *tries) newCounts() *counts {
	c := &counts{
		nodes: make(values, len(t.above)),
		sums:  totals{make([]pair, len(t.methodNumbers)), make([]pair, len(t.edges.Keys))},
	}
	if len(t.a.evicted)+len(t.b.evicted) > 0 {
		c.evicted = make(values, len(t.edges.Keys))
	}
	return c
}

func (c *counts) clear() {
	clear(c.nodes)
	clear(c.evicted)
}

// countValues sets c to the values that the profiles counted.
func (t *tries) countValues(c *counts) {
	c.clear()
	c.add(t.a, func(k counted) value { return value{a: k.value} })
	c.add(t.b, func(k counted) value { return value{b: k.value} })
}

// countObservations sets c to the samples or calls that make up the values.
func (t *tries) countObservations(c *counts) {
	c.clear()
	c.add(t.a, func(k counted) value { return value{a: k.observations} })
	c.add(t.b, func(k counted) value { return value{b: k.observations} })
}

// add adds the share of every count of a profile.
func (c *counts) add(s side, share func(counted) value) {
	for _, k := range s.counted {
		c.nodes[k.at].add(share(k))
	}
	for _, k := range s.evicted {
		c.evicted[k.at].add(share(k))
	}
}

func (v *value) add(o value) {
	v.a += o.a
	v.b += o.b
}

// include adds to every compressed path the values below it, if the weight is
// inclusive. It returns the sums over all counters of the contexts. A value counts
// for every sub-path of its stack, or only for the sub-paths that end at its end.
// The value of path 0 is never used: it stands for no method.
func (t *tries) include(x values) (all pair) {
	for i, v := range t.last {
		paths := uint64(t.depth[v])
		if t.weight.inclusive() {
			paths = paths * (paths + 1) / 2
		}
		all = all.addTimes(x.at(uint32(i)), paths)
	}
	if t.weight.inclusive() {
		for i := len(x) - 1; i > 0; i-- {
			x[t.above[i]].add(x[i])
		}
	}
	return all
}

// totals are the values of methods and of edges, without the edges to outermost
// frames. They are in any context and, under recursion, count once for each
// occurrence in a stack, as in the CC-Map.
type totals struct{ methods, edges []pair }

// total adds up the values of kept nodes. All nodes that an edge leads to are
// neighbours in the order.
func (t *tries) total(c *counts) totals {
	sums := c.sums
	clear(sums.methods)
	clear(sums.edges)
	for _, r := range t.roots {
		sums.methods[r.callee] = sums.methods[r.callee].add(c.nodes.at(r.path))
	}
	for place := 1; place < len(t.nodes); {
		e := t.edge[t.nodes[place]]
		sum := c.nodes.at(t.compressedAt[place])
		for place++; place < len(t.nodes) && t.shared.at(place) > 0; place++ {
			sum = sum.add(c.nodes.at(t.compressedAt[place]))
		}
		sums.edges[e] = sum
		callee := t.edges.Keys[e].Callee
		sums.methods[callee] = sums.methods[callee].add(sum)
	}
	return sums
}

// addEvicted adds the counters of pruned nodes to totals, which it overwrites.
func (t *tries) addEvicted(sums totals, evicted values) totals {
	for i := range evicted {
		e, c := t.edges.Keys[i], evicted.at(uint32(i))
		if e.Callee == noMethod {
			continue
		}
		sums.methods[e.Callee] = sums.methods[e.Callee].add(c)
		if !isOutermost(e) {
			sums.edges[i] = sums.edges[i].add(c)
		}
	}
	return sums
}

// tally is the value and the observations of one item in both profiles.
type tally struct{ value, observations value }

func (t *tally) add(o tally) {
	t.value.add(o.value)
	t.observations.add(o.observations)
}

// least returns a tally with the smaller counts of each.
func (t tally) least(o tally) tally {
	return tally{
		value{min(t.value.a, o.value.a), min(t.value.b, o.value.b)},
		value{min(t.observations.a, o.observations.a), min(t.observations.b, o.observations.b)},
	}
}

// tallies returns the counts at and below the last node of each compressed path.
func (t *tries) tallies() []tally {
	tallies := make([]tally, len(t.above))
	c := t.newCounts()
	t.countValues(c)
	t.include(c.nodes)
	for i, v := range c.nodes {
		tallies[i].value = v
	}
	t.countObservations(c)
	t.include(c.nodes)
	for i, v := range c.nodes {
		tallies[i].observations = v
	}
	tallies[0] = tally{} // stands for no method
	return tallies
}

// callers returns, by context, the context that calls it, given the compressed path
// that each was joined to. It drops the tallies of paths that were joined to
// another.
func (t *tries) callers(x []tally, joined []uint32) []uint32 {
	callers := make([]uint32, len(t.above))
	for i, above := range t.above {
		callers[i] = above
		if joined[above] != above {
			callers[i] = callers[above]
		}
		if joined[i] != uint32(i) {
			x[i] = tally{}
		}
	}
	return callers
}

// once returns the tallies of methods and edges, by number. A sample counts once in
// each: only the outermost nodes of a method or an edge count.
func (t *tries) once(x []tally) (methods, edges []tally) {
	methods, edges = make([]tally, len(t.methodNumbers)), make([]tally, len(t.edges.Keys))
	inMethod, inEdge := make([]uint32, len(methods)), make([]uint32, len(edges)) // outermost node on the current path
	for v, entered := range t.links().Walk() {
		e := t.edge[v]
		m := t.edges.Keys[e].Callee
		switch {
		case entered && inMethod[m] == 0:
			inMethod[m] = v
			methods[m].add(x[t.compressedOf[v]])
		case !entered && inMethod[m] == v:
			inMethod[m] = 0
		}
		switch {
		case entered && inEdge[e] == 0 && !isOutermost(t.edges.Keys[e]):
			inEdge[e] = v
			edges[e].add(x[t.compressedOf[v]])
		case !entered && inEdge[e] == v:
			inEdge[e] = 0
		}
	}
	t.addPruned(methods, edges)
	return methods, edges
}

// addPruned adds the counts of pruned nodes. The counts of an edge may have a
// sample more than once under recursion, so no edge gets more than its methods
// have.
func (t *tries) addPruned(methods, edges []tally) {
	for _, s := range []struct {
		side
		as func(n uint64) value
	}{
		{t.a, func(n uint64) value { return value{a: n} }},
		{t.b, func(n uint64) value { return value{b: n} }},
	} {
		for p := range s.PrunedMethods() {
			if m, ok := t.numberOf(s.Names().At(p.Method)); ok {
				c := p.Cumulative
				methods[m].add(tally{s.as(t.weight.of(c)), s.as(uint64(c.Samples))})
			}
		}
		for _, base := range s.evicted {
			edges[base.at].add(tally{s.as(base.value), s.as(base.observations)})
		}
	}
	for i, e := range t.edges.Keys {
		if !isOutermost(e) {
			edges[i] = edges[i].least(methods[e.Caller]).least(methods[e.Callee])
		} else {
			edges[i] = tally{}
		}
	}
}

func (u *union) numberOf(m ccmap.Method) (uint32, bool) {
	n, ok := u.methodNumbers[u.keyOf(m)]
	return n, ok
}

// links links every node to its children.
func (u *union) links() *tree.Links {
	links := tree.NewLinks(u.len())
	for v := u.len() - 1; v > 0; v-- {
		links.Add(u.parent[v], uint32(v))
	}
	return &links
}
