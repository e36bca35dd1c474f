package compare

import "github.com/ccmapd/ccmapd/ccmap"

// tally is what was counted of one thing in both profiles.
type tally struct{ value, things value }

func (t *tally) add(o tally) {
	t.value.add(o.value)
	t.things.add(o.things)
}

// least returns a tally with the smaller counts of each.
func (t tally) least(o tally) tally {
	return tally{
		value{min(t.value.a, o.value.a), min(t.value.b, o.value.b)},
		value{min(t.things.a, o.things.a), min(t.things.b, o.things.b)},
	}
}

// tallies returns what was counted at and below the last node of each stretch.
func (t *tries) tallies() []tally {
	tallies := make([]tally, len(t.above))
	c := t.newCounts()
	t.observe(c)
	t.include(c.nodes)
	for i, v := range c.nodes {
		tallies[i].value = v
	}
	t.observeThings(c)
	t.include(c.nodes)
	for i, v := range c.nodes {
		tallies[i].things = v
	}
	tallies[0] = tally{} // stands for no method
	return tallies
}

// callers returns, by context, the one that calls it, given to which stretch each
// was joined. It drops the tallies of those that were joined to another.
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

// once returns the tallies of methods and edges, by number, in which a sample
// counts once, by the outermost of the nodes that have the method or the edge.
func (t *tries) once(x []tally) (methods, edges []tally) {
	methods, edges = make([]tally, len(t.methodNumbers)), make([]tally, len(t.edges))
	inMethod, inEdge := make([]uint32, len(methods)), make([]uint32, len(edges)) // outermost node on the path at hand
	t.walk(func(v uint32) {
		e := t.edge[v]
		m := t.edges[e].callee
		if inMethod[m] == 0 {
			inMethod[m] = v
			methods[m].add(x[t.stretchOf[v]])
		}
		if inEdge[e] == 0 && !t.edges[e].outermost() {
			inEdge[e] = v
			edges[e].add(x[t.stretchOf[v]])
		}
	}, func(v uint32) {
		e := t.edge[v]
		if m := t.edges[e].callee; inMethod[m] == v {
			inMethod[m] = 0
		}
		if inEdge[e] == v {
			inEdge[e] = 0
		}
	})
	t.addPruned(methods, edges)
	return methods, edges
}

// addPruned adds what pruned nodes counted. That of edges may have a sample more
// than once under recursion; no edge has more than its methods.
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
		for _, base := range s.bases {
			edges[base.at].add(tally{s.as(base.value), s.as(base.things)})
		}
	}
	for i, e := range t.edges {
		if !e.outermost() {
			edges[i] = edges[i].least(methods[e.caller]).least(methods[e.callee])
		} else {
			edges[i] = tally{}
		}
	}
}

func (u *union) numberOf(m ccmap.Method) (uint32, bool) {
	n, ok := u.methodNumbers[methodKey{m.Name, m.Signature}]
	return n, ok
}

// walk visits every node but node 0, depth first: it enters it, visits what is
// below, and leaves it.
func (u *union) walk(enter, leave func(v uint32)) {
	first, next := u.kin()
	for v := first[0]; v != 0; {
		enter(v)
		if first[v] != 0 {
			v = first[v]
			continue
		}
		leave(v)
		for next[v] == 0 && u.parent[v] != 0 {
			v = u.parent[v]
			leave(v)
		}
		v = next[v]
	}
}

// kin returns every node's first child and next sibling; 0: none.
func (u *union) kin() (first, next []uint32) {
	first, next = make([]uint32, u.len()), make([]uint32, u.len())
	for v := u.len() - 1; v > 0; v-- {
		p := u.parent[v]
		next[v], first[p] = first[p], uint32(v)
	}
	return first, next
}
