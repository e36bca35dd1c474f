package compare

import "math/big"

// pair is the value of one counter, or a sum of such, in each profile.
type pair struct{ a, b wide }

func (p pair) add(o pair) pair { return pair{p.a.add(o.a), p.b.add(o.b)} }

func (p pair) addTimes(c pair, n uint64) pair {
	return pair{p.a.addTimes(c.a, n), p.b.addTimes(c.b, n)}
}

// overlap sums the smaller weights of counters: Σ min(a/A, b/B), A and B being
// the sums of all values. As the smaller one is found by products, a·B ≤ b·A,
// only whole numerators are summed: those over A apart from those over B.
type overlap struct {
	all      pair // A and B
	smaller  pair // numerators over A, over B
	counters uint64
}

// count takes n counters that have the same value c.
func (o *overlap) count(c pair, n uint64) {
	if c.a.isZero() && c.b.isZero() {
		return
	}
	o.counters += n
	if productAtMost(c.a, o.all.b, c.b, o.all.a) {
		o.smaller.a = o.smaller.a.addTimes(c.a, n)
	} else {
		o.smaller.b = o.smaller.b.addTimes(c.b, n)
	}
}

// percent returns the float64 nearest to the exact overlap.
func (o *overlap) percent() float64 {
	if o.all.a.isZero() || o.all.b.isZero() {
		if o.all.a == o.all.b {
			return 100
		}
		return 0
	}
	a, b := o.all.a.big(), o.all.b.big()
	sum := new(big.Int).Mul(o.smaller.a.big(), b)
	sum.Add(sum, new(big.Int).Mul(o.smaller.b.big(), a))
	sum.Mul(sum, big.NewInt(100))
	percent, _ := new(big.Rat).SetFrac(sum, a.Mul(a, b)).Float64()
	return percent
}

// overlaps are those over all three sets of counters.
type overlaps struct{ methods, edges, contexts overlap }

// percents are those of the three overlaps.
type percents struct{ methods, edges, contexts float64 }

func (o *overlaps) percents() percents {
	return percents{o.methods.percent(), o.edges.percent(), o.contexts.percent()}
}

func (p percents) add(o percents) percents {
	return percents{p.methods + o.methods, p.edges + o.edges, p.contexts + o.contexts}
}

func (p percents) dividedBy(n int) percents {
	return percents{p.methods / float64(n), p.edges / float64(n), p.contexts / float64(n)}
}

// measure returns the totals and the overlaps of counts, to which it adds what
// is below every node. The totals are good until c is measured again. Methods and
// edges are those of all samples, contexts those of the kept ones.
func (t *tries) measure(c *counts) (totals, overlaps) {
	var o overlaps
	o.contexts.all = t.include(c.nodes)
	for i, paths := range t.own {
		o.contexts.count(c.nodes.at(uint32(i)), paths)
	}
	t.eachRun(c.nodes, func(r run, _ uint32, paths uint64) { o.contexts.count(r.sum, paths) })
	kept := t.total(c)
	for _, m := range kept.methods {
		o.contexts.count(m, 1)
	}
	full := t.addBases(kept, c.bases)
	o.methods.countAll(full.methods)
	o.edges.countAll(full.edges)
	return full, o
}

// countAll takes counters that are all there are.
func (o *overlap) countAll(counters []pair) {
	for _, c := range counters {
		o.all = o.all.add(c)
	}
	for _, c := range counters {
		o.count(c, 1)
	}
}

func (o *overlap) result() Overlap {
	return Overlap{Percent: o.percent(), Counters: o.counters}
}
