package compare

// counts are the values of one observation, or one draw, of two profiles.
type counts struct {
	nodes values // by stretch; at first what its last node counts itself
	bases values // by edge, of pruned nodes; nil where nothing was pruned
	sums  totals // room for those of the two
}

// values are those of both profiles. They lie together, as they are read at
// random.
type values []value

type value struct{ a, b uint64 }

func (x values) at(i uint32) pair { return pair{wide{lo: x[i].a}, wide{lo: x[i].b}} }

func (t *tries) newCounts() *counts {
	c := &counts{
		nodes: make(values, len(t.above)),
		sums:  totals{make([]pair, len(t.methodNumbers)), make([]pair, len(t.edges))},
	}
	if len(t.a.bases)+len(t.b.bases) > 0 {
		c.bases = make(values, len(t.edges))
	}
	return c
}

func (c *counts) clear() {
	clear(c.nodes)
	clear(c.bases)
}

// observe makes c what the profiles counted.
func (t *tries) observe(c *counts) {
	c.clear()
	c.add(t.a, func(k counted) value { return value{a: k.value} })
	c.add(t.b, func(k counted) value { return value{b: k.value} })
}

// observeThings makes c the samples or calls that what they counted is made of.
func (t *tries) observeThings(c *counts) {
	c.clear()
	c.add(t.a, func(k counted) value { return value{a: k.things} })
	c.add(t.b, func(k counted) value { return value{b: k.things} })
}

// add adds what share makes of everything that a profile counted.
func (c *counts) add(s side, share func(counted) value) {
	for _, k := range s.counted {
		c.nodes[k.at].add(share(k))
	}
	for _, k := range s.bases {
		c.bases[k.at].add(share(k))
	}
}

func (v *value) add(o value) {
	v.a += o.a
	v.b += o.b
}

// include adds to every stretch what is below it, where the weight asks for it,
// and returns the sums over all counters of the contexts: so many as there are
// sub-paths of a stack for what was counted in it, or as end at its end. Of
// stretch 0 nobody takes the value: it stands for no method.
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

// totals are the values of methods, and of edges but for those from nobody: in
// any context, and under recursion once for each occurrence in a stack, as in
// the CC-Map.
type totals struct{ methods, edges []pair }

// total adds up the values of kept nodes. Those that an edge leads to have their
// places in the order together.
func (t *tries) total(c *counts) totals {
	sums := c.sums
	clear(sums.methods)
	clear(sums.edges)
	for _, r := range t.roots {
		sums.methods[r.callee] = sums.methods[r.callee].add(c.nodes.at(r.stretch))
	}
	for place := 1; place < len(t.nodes); {
		e := t.edge[t.nodes[place]]
		sum := c.nodes.at(t.stretchAt[place])
		for place++; place < len(t.nodes) && t.shared.at(place) > 0; place++ {
			sum = sum.add(c.nodes.at(t.stretchAt[place]))
		}
		sums.edges[e] = sum
		callee := t.edges[e].callee
		sums.methods[callee] = sums.methods[callee].add(sum)
	}
	return sums
}

// addBases adds to totals, which it overwrites, those of pruned nodes.
func (t *tries) addBases(sums totals, bases values) totals {
	for i := range bases {
		e, c := t.edges[i], bases.at(uint32(i))
		if e.callee == nobody {
			continue
		}
		sums.methods[e.callee] = sums.methods[e.callee].add(c)
		if !e.outermost() {
			sums.edges[i] = sums.edges[i].add(c)
		}
	}
	return sums
}
