package compare

import "math/big"

// pair is the value of one counter, or a sum of such, in each profile.
type pair struct{ a, b wide }

func (p pair) add(o pair) pair { return pair{p.a.add(o.a), p.b.add(o.b)} }

func (p pair) addTimes(c pair, n uint64) pair {
	return pair{p.a.addTimes(c.a, n), p.b.addTimes(c.b, n)}
}

// values are those of both profiles, by node of the union: of the counter whose
// path reaches from an outermost frame to the node. A node's two values lie
// together, as they are read at random.
type values []struct{ a, b uint64 }

func (x values) at(v uint32) pair { return pair{wide{lo: x[v].a}, wide{lo: x[v].b}} }

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

// overlaps measures the overlaps of values, whose totals are given.
func (t *tries) overlaps(x values, sums totals) overlaps {
	var o overlaps
	o.methods.countAll(sums.methods)
	o.edges.countAll(sums.edges)
	for v, depth := range t.depth {
		o.contexts.all = o.contexts.all.addTimes(x.at(uint32(v)), uint64(depth))
	}
	for _, c := range sums.methods {
		o.contexts.count(c, 1)
	}
	t.countLonger(x, &o.contexts)
	return o
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

// totals are the values of methods, and of edges but for those from nobody: in
// any context, and under recursion once for each occurrence in a stack, as in
// the CC-Map.
type totals struct{ methods, edges []pair }

func (t *tries) totals(x values) totals {
	sums := totals{make([]pair, len(t.methodNumbers)), make([]pair, len(t.edges))}
	for v, e := range t.edge {
		sums.edges[e] = sums.edges[e].add(x.at(uint32(v)))
	}
	for e, c := range sums.edges {
		if callee := t.edges[e].callee; callee != nobody {
			sums.methods[callee] = sums.methods[callee].add(c)
		}
		if t.edges[e].outermost() {
			sums.edges[e] = pair{}
		}
	}
	return sums
}

// run is a run of places in an order whose words have length edges in common,
// and no more: the sum of their values is the counter of that path.
type run struct {
	length uint32
	sum    pair
}

// countLonger takes the counters of all paths of two methods or more.
//
// Open runs lie on a stack, each within the one below it and longer. A run
// that ends speaks for all lengths over that of the run around it: those paths
// end at the same nodes.
func (t *tries) countLonger(x values, o *overlap) {
	open := []run{{}}
	var words [128]run
	for place := 1; place < len(t.order.nodes); place += len(words) {
		for i, word := range words[:t.words(x, place, words[:])] {
			open = closeRuns(open, t.order.shared.at(place+i), o)
			open = append(open, word)
		}
	}
	closeRuns(open, 0, o)
}

// words fills dst with the words at a place and those that follow, as runs of
// themselves, and returns how many there are. They lie anywhere in memory. To
// fetch many before any is looked at lets the processor wait for them together:
// it makes a pass over a million words about 1.5 times as fast.
func (t *tries) words(x values, place int, dst []run) int {
	nodes := t.order.nodes[place:min(place+len(dst), len(t.order.nodes))]
	for i, v := range nodes {
		dst[i] = run{t.depth[v] - 1, x.at(v)}
	}
	return len(nodes)
}

// closeRuns ends the runs longer than shared. If the run around them is
// shorter than that, one of that length opens around them.
func closeRuns(open []run, shared uint32, o *overlap) []run {
	for {
		top := &open[len(open)-1]
		if top.length <= shared {
			return open
		}
		around := &open[len(open)-2]
		if around.length < shared {
			o.count(top.sum, uint64(top.length-shared))
			top.length = shared
			return open
		}
		o.count(top.sum, uint64(top.length-around.length))
		around.sum = around.sum.add(top.sum)
		open = open[:len(open)-1]
	}
}
