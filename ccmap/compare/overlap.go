package compare

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// pair is the value of one counter, or a sum of values, in each profile.
type pair struct{ a, b wide }

func (p pair) add(o pair) pair { return pair{p.a.add(o.a), p.b.add(o.b)} }

func (p pair) addTimes(c pair, n uint64) pair {
	return pair{p.a.addTimes(c.a, n), p.b.addTimes(c.b, n)}
}

// overlap sums the smaller weights of counters: Σ min(a/A, b/B), where A and B are
// the sums of all values. The smaller one is found by products, a·B ≤ b·A. So all
// sums are sums of whole numerators, one over A and one over B.
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

// overlaps are the overlaps over all three sets of counters.
type overlaps struct{ methods, edges, contexts overlap }

// percents are the three overlaps in percent.
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

// measure returns the totals and the overlaps of counts. It adds to every node the
// counts below it. The totals are valid until c is measured again. Methods and
// edges count all samples, contexts only the kept ones.
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
	full := t.addEvicted(kept, c.evicted)
	o.methods.countAll(full.methods)
	o.edges.countAll(full.edges)
	return full, o
}

// countAll counts a complete set of counters.
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

// wide is an unsigned number of 128 bits. No sum of counters overflows it: a
// map's total is less than 2⁶³, and a stack of fewer than 2³² frames has fewer
// than 2⁶³ sub-paths.
type wide struct{ hi, lo uint64 }

func (w wide) add(o wide) wide {
	lo, carry := bits.Add64(w.lo, o.lo, 0)
	return wide{w.hi + o.hi + carry, lo}
}

// addTimes returns w + c·n.
func (w wide) addTimes(c wide, n uint64) wide {
	hi, lo := bits.Mul64(c.lo, n)
	return w.add(wide{hi + c.hi*n, lo})
}

func (w wide) isZero() bool { return w == wide{} }

func (w wide) compare(o wide) int {
	return cmp.Or(cmp.Compare(w.hi, o.hi), cmp.Compare(w.lo, o.lo))
}

// times returns the product in 256 bits, the highest word first.
func (w wide) times(o wide) [4]uint64 {
	var p [4]uint64
	p[2], p[3] = bits.Mul64(w.lo, o.lo)
	p[0], p[1] = bits.Mul64(w.hi, o.hi)
	for _, cross := range [...][2]uint64{{w.hi, o.lo}, {w.lo, o.hi}} {
		hi, lo := bits.Mul64(cross[0], cross[1])
		var carry uint64
		p[2], carry = bits.Add64(p[2], lo, 0)
		p[1], carry = bits.Add64(p[1], hi, carry)
		p[0] += carry
	}
	return p
}

// productAtMost reports whether a·b ≤ c·d.
func productAtMost(a, b, c, d wide) bool {
	if a.hi|b.hi|c.hi|d.hi != 0 {
		return widestAtMost(a.times(b), c.times(d))
	}
	hi1, lo1 := bits.Mul64(a.lo, b.lo)
	hi2, lo2 := bits.Mul64(c.lo, d.lo)
	return hi1 < hi2 || hi1 == hi2 && lo1 <= lo2
}

func widestAtMost(p, q [4]uint64) bool {
	for i := range p {
		if p[i] != q[i] {
			return p[i] < q[i]
		}
	}
	return true
}

// float returns the nearest float64, or a neighbour after a second rounding.
func (w wide) float() float64 { return float64(w.hi)*(1<<64) + float64(w.lo) }

func (w wide) big() *big.Int {
	n := new(big.Int).SetUint64(w.hi)
	return n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(w.lo))
}

// int64 returns the number, or the largest int64 if it is larger.
func (w wide) int64() int64 {
	if w.hi != 0 || w.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(w.lo)
}

// pearson returns the correlation of the two values of counters. It leaves out
// counters that are 0 in both.
func pearson(counters []pair) float64 { return correlate(present(counters)) }

// spearman returns the correlation of their ranks.
func spearman(counters []pair) float64 {
	counters = present(counters)
	a := doubledRanks(counters, func(p pair) wide { return p.a })
	b := doubledRanks(counters, func(p pair) wide { return p.b })
	ranks := make([]pair, len(counters))
	for i := range ranks {
		ranks[i] = pair{wide{lo: a[i]}, wide{lo: b[i]}}
	}
	return correlate(ranks)
}

func present(counters []pair) []pair {
	return slices.DeleteFunc(slices.Clone(counters), func(p pair) bool { return p == pair{} })
}

// correlate returns Pearson's coefficient, −1 to 1:
//
//	(nΣab − ΣaΣb) / √((nΣaa − ΣaΣa)·(nΣbb − ΣbΣb))
//
// in whole numbers up to the root, so that the result depends neither on the order
// of the methods nor on the sizes of values. Without variance it is not defined: then
// it returns 1 if neither has variance, 0 if one has.
func correlate(values []pair) float64 {
	var a, b, ab, sumA, sumB, sumAA, sumAB, sumBB big.Int
	for _, p := range values {
		a.Set(p.a.big())
		b.Set(p.b.big())
		sumA.Add(&sumA, &a)
		sumB.Add(&sumB, &b)
		sumAA.Add(&sumAA, ab.Mul(&a, &a))
		sumAB.Add(&sumAB, ab.Mul(&a, &b))
		sumBB.Add(&sumBB, ab.Mul(&b, &b))
	}
	n := big.NewInt(int64(len(values)))
	varianceA := scatter(n, &sumAA, &sumA, &sumA)
	varianceB := scatter(n, &sumBB, &sumB, &sumB)
	if varianceA.Sign() == 0 || varianceB.Sign() == 0 {
		if varianceA.Sign() == varianceB.Sign() {
			return 1
		}
		return 0
	}
	return ratioToRoot(scatter(n, &sumAB, &sumA, &sumB), varianceA.Mul(varianceA, varianceB))
}

// scatter returns n·products − a·b.
func scatter(n, products, a, b *big.Int) *big.Int {
	s := new(big.Int).Mul(n, products)
	return s.Sub(s, new(big.Int).Mul(a, b))
}

// ratioToRoot returns x/√square. Squares of whole numbers have exact roots.
func ratioToRoot(x, square *big.Int) float64 {
	precision := uint(square.BitLen()) + 64
	root := new(big.Float).SetPrec(precision).SetInt(square)
	root.Sqrt(root)
	ratio := new(big.Float).SetPrec(precision).SetInt(x)
	r, _ := ratio.Quo(ratio, root).Float64()
	return r
}

// doubledRanks returns twice the rank of each value, ranks counting from 1;
// equal values have the average of their ranks.
func doubledRanks(counters []pair, value func(pair) wide) []uint64 {
	order := make([]int, len(counters))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return value(counters[i]).compare(value(counters[j])) })
	ranks := make([]uint64, len(counters))
	for lo := 0; lo < len(order); {
		hi := lo + 1
		for hi < len(order) && value(counters[order[hi]]) == value(counters[order[lo]]) {
			hi++
		}
		for _, i := range order[lo:hi] {
			ranks[i] = uint64(lo + 1 + hi)
		}
		lo = hi
	}
	return ranks
}

// cover measures hot-edge coverage in both directions.
func cover(edges []pair, tau float64) Coverage {
	var ofA, ofB hotEdges
	for _, c := range edges {
		ofA.hottest = max(ofA.hottest, c.a.float())
		ofB.hottest = max(ofB.hottest, c.b.float())
	}
	for _, c := range edges {
		ofA.count(c.a, c.b, tau)
		ofB.count(c.b, c.a, tau)
	}
	return Coverage{
		Tau: tau, HotA: ofA.hot, HotB: ofB.hot,
		AB: ofA.percent(), BA: ofB.percent(),
	}
}

// hotEdges counts one profile's hot edges, and how many of them another profile
// has.
type hotEdges struct {
	hottest     float64 // value of the hottest edge
	hot, common int
}

func (h *hotEdges) count(own, other wide, tau float64) {
	if own.isZero() || own.float() < tau*h.hottest {
		return
	}
	h.hot++
	if !other.isZero() {
		h.common++
	}
}

func (h *hotEdges) percent() float64 {
	if h.hot == 0 {
		return 100
	}
	return 100 * float64(h.common) / float64(h.hot)
}
