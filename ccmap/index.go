package ccmap

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// index is the base of the views: the nodes grouped by the edge that leads to
// them, and the totals of edges and methods.
//
// An edge here is any (caller, site, callee) that a node has: a call; the start
// of an outermost frame, with the caller NoMethod; a position, with the callee
// NoMethod.
type index struct {
	edges    []edge   // by callee, caller, site
	nodes    []NodeID // by edge, then by ID
	byCaller []uint32 // indices of edges, by caller, site, callee
	methods  []methodTotals
}

type edge struct {
	edgeKey
	lo, hi uint32 // of index.nodes
	total  Counters
}

// methodTotals are the totals of a method, as [MethodProfile] defines them.
type methodTotals struct {
	total, cumulative, self Counters
	seen                    bool // in a node, or in a removed one
}

func (s *Snapshot) indexed() *index {
	s.index.once.Do(func() { s.index.build(s) })
	return &s.index.index
}

// build makes the index in time linear in the nodes, except for sorting the edges of each method,
// which are few.
func (x *index) build(s *Snapshot) {
	of := x.findEdges(s)
	x.sortByCaller(s.names.Len())
	x.groupNodes(of)
	x.sumEdges(s, of)
	x.addEvicted(s)
	x.sumMethods(s)
}

// findEdges finds and sorts the edges, and returns the edge of each node.
func (x *index) findEdges(s *Snapshot) []uint32 {
	of, keys := s.numberEdges()
	byCallee := sortedIndices(keys, s.names.Len(), func(e edgeKey) (MethodID, uint64) { return e.Callee, uint64(e.Caller)<<32 | uint64(e.Site) })
	x.edges = make([]edge, len(keys))
	rank := make([]uint32, len(keys))
	for i, k := range byCallee {
		x.edges[i].edgeKey = keys[k]
		rank[k] = uint32(i)
	}
	for id := 1; id < len(of); id++ {
		of[id] = rank[of[id]]
	}
	return of
}

// numberEdges returns the number of each node's edge, and the edges by number.
func (s *Snapshot) numberEdges() (of []uint32, keys []edgeKey) {
	var numbers tree.Edges[MethodID]
	for e := range s.PrunedEdges() {
		numbers.Number(e.key())
	}
	of = make([]uint32, s.nodes.len)
	for id := NodeID(1); uint32(id) < s.nodes.len; id++ {
		of[id] = numbers.NumberBelow(of[s.at(id).parent], s.edgeOf(id))
	}
	return of, numbers.Keys
}

// ranked is an edge among those of one method.
type ranked struct {
	rank uint64
	edge uint32
}

// sortedIndices returns the indices of keys by a method and by the rank there. Counting finds the edges of each method, so
// that only few, near each other, are compared: at five million edges, comparing all takes 7 times as long.
func sortedIndices(keys []edgeKey, methods int, by func(edgeKey) (MethodID, uint64)) []uint32 {
	group := func(k edgeKey) (int, uint64) {
		m, rank := by(k)
		return int(min(uint32(m), uint32(methods))), rank // [NoMethod] is the last one
	}
	ends := make([]uint32, methods+1)
	for _, k := range keys {
		m, _ := group(k)
		ends[m]++
	}
	at := uint32(0)
	for m, n := range ends {
		ends[m], at = at, at+n // the start, until it is filled
	}
	grouped := make([]ranked, len(keys))
	for i, k := range keys {
		m, rank := group(k)
		grouped[ends[m]] = ranked{rank, uint32(i)}
		ends[m]++
	}
	from := uint32(0)
	for _, to := range ends {
		slices.SortFunc(grouped[from:to], func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
		from = to
	}
	order := make([]uint32, len(keys))
	for i, r := range grouped {
		order[i] = r.edge
	}
	return order
}

// groupNodes sorts the nodes by their edge, by counting.
func (x *index) groupNodes(of []uint32) {
	for _, e := range of[1:] {
		x.edges[e].hi++
	}
	at := uint32(0)
	for i := range x.edges {
		e := &x.edges[i]
		e.lo, at = at, at+e.hi
		e.hi = e.lo
	}
	x.nodes = make([]NodeID, at)
	for i, e := range of[1:] {
		x.nodes[x.edges[e].hi] = NodeID(i + 1)
		x.edges[e].hi++
	}
}

func (x *index) sortByCaller(methods int) {
	keys := make([]edgeKey, len(x.edges))
	for i := range keys {
		keys[i] = x.edges[i].edgeKey
	}
	x.byCaller = sortedIndices(keys, methods, func(e edgeKey) (MethodID, uint64) { return e.Caller, uint64(e.Site)<<32 | uint64(e.Callee) })
}

// sumEdges adds up the totals of edges, and the self counters of methods, in the
// order of nodes. It skips the counts at [pruned] for methods: the methods that they
// belong to have them as evicted counters.
func (x *index) sumEdges(s *Snapshot, of []uint32) {
	x.methods = make([]methodTotals, s.names.Len())
	sums := s.sums()
	for id := NodeID(1); uint32(id) < s.nodes.len; id++ {
		e, self, below := &x.edges[of[id]], s.columns.at(id), sums.of(id)
		e.total = e.total.Add(below.of(self))
		if self.IsZero() {
			continue
		}
		method := e.Callee
		if method == NoMethod {
			method = e.Caller
		}
		if method == PrunedID {
			continue
		}
		m := &x.methods[method]
		m.self = m.self.Add(self)
	}
}

// addEvicted adds the counters of removed nodes.
func (x *index) addEvicted(s *Snapshot) {
	for p := range s.PrunedEdges() {
		e := &x.edges[x.number(p.key())]
		e.total = e.total.Add(p.Total)
	}
	for p := range s.PrunedMethods() {
		m := &x.methods[p.Method]
		m.self = m.self.Add(p.Self)
	}
}

// number returns the index of an edge, which must exist.
func (x *index) number(key edgeKey) int {
	i, _ := slices.BinarySearchFunc(x.edges, key, func(e edge, k edgeKey) int { return e.CompareByCallee(k) })
	return i
}

// sumMethods adds up the totals of methods from the edges.
func (x *index) sumMethods(s *Snapshot) {
	for i := range x.edges {
		if e := &x.edges[i]; e.Callee != NoMethod {
			m := &x.methods[e.Callee]
			m.total = m.total.Add(e.total)
			m.seen = true
		}
	}
	sums := s.Cumulative()
	for i, sum := range sums[:min(len(sums), len(x.methods))] { // the others are names that came meanwhile
		m := &x.methods[i]
		m.cumulative, m.self = sum.WithCalls(m.total), m.self.WithCalls(m.total)
	}
}

// callers returns the edges that lead to a method, by caller and site.
func (x *index) callers(m MethodID) []edge {
	lo := sort.Search(len(x.edges), func(i int) bool { return x.edges[i].Callee >= m })
	hi := sort.Search(len(x.edges), func(i int) bool { return x.edges[i].Callee > m })
	return x.edges[lo:hi]
}

// callees returns the indices of the edges that lead from a method, by site and
// callee, positions among them.
func (x *index) callees(m MethodID) []uint32 {
	caller := func(i int) MethodID { return x.edges[x.byCaller[i]].Caller }
	lo := sort.Search(len(x.byCaller), func(i int) bool { return caller(i) >= m })
	hi := sort.Search(len(x.byCaller), func(i int) bool { return caller(i) > m })
	return x.byCaller[lo:hi]
}

// edgeKey is the identity of an edge.
type edgeKey = tree.Edge[MethodID]

func isSameSite(e, o edge) bool { return e.Caller == o.Caller && e.Site == o.Site }

// isCall reports whether an edge is a call that was sampled there.
func isCall(k edgeKey) bool {
	return k.Caller != NoMethod && k.Callee != NoMethod && k.Callee != PrunedID
}

// cumulative has the totals of edges and of call sites that count a sample once,
// however often recursion brings it there. As with methods, only the outermost nodes
// of an edge or site count, with all nodes below them.
type cumulative struct {
	edges  []Counters // by index.edges
	sites  []Counters // by number
	siteOf []uint32   // number of each edge's call site
}

func (s *Snapshot) calls() *cumulative {
	s.cumulative.once.Do(func() { s.cumulative.build(s, s.indexed()) })
	return &s.cumulative.cumulative
}

// build makes the totals in time linear in the nodes.
func (c *cumulative) build(s *Snapshot, x *index) {
	c.edges = make([]Counters, len(x.edges))
	c.numberSites(x)
	c.addNodes(s, x)
	c.addEvicted(s, x)
	c.limit(x)
}

// numberSites finds the edges of one call site, which are neighbours by caller.
func (c *cumulative) numberSites(x *index) {
	c.siteOf = make([]uint32, len(x.edges))
	for i, e := range x.byCaller {
		if i == 0 || !isSameSite(x.edges[e], x.edges[x.byCaller[i-1]]) {
			c.sites = append(c.sites, Counters{})
		}
		c.siteOf[e] = uint32(len(c.sites) - 1)
	}
}

// addNodes adds the counts at and below the outermost nodes of each edge and site.
func (c *cumulative) addNodes(s *Snapshot, x *index) {
	edgeOf := make([]uint32, s.nodes.len)
	for i, e := range x.edges {
		for _, n := range x.nodes[e.lo:e.hi] {
			edgeOf[n] = uint32(i)
		}
	}
	inEdge, inSite := make([]NodeID, len(c.edges)), make([]NodeID, len(c.sites)) // outermost node on the current path
	sums := s.sums()
	for v, entered := range s.children().Walk() {
		n := NodeID(v)
		e := edgeOf[n]
		if !isCall(x.edges[e].edgeKey) {
			continue
		}
		below := sums.of(n)
		count(&inEdge[e], &c.edges[e], n, entered, below)
		count(&inSite[c.siteOf[e]], &c.sites[c.siteOf[e]], n, entered, below)
	}
}

// count adds the counts at and below a node, unless another node that counts is above
// it.
func count(holder *NodeID, total *Counters, n NodeID, entered bool, below span) {
	switch {
	case !entered && *holder == n:
		*holder = 0
	case entered && *holder == 0:
		*holder = n
		*total = total.Add(below.counters())
	}
}

// addEvicted adds the counters of removed nodes, where a sample may count repeatedly.
func (c *cumulative) addEvicted(s *Snapshot, x *index) {
	for p := range s.PrunedEdges() {
		if !isCall(p.key()) {
			continue
		}
		e, total := x.number(p.key()), p.Total
		c.edges[e] = c.edges[e].Add(total)
		c.sites[c.siteOf[e]] = c.sites[c.siteOf[e]].Add(total)
	}
}

// limit reduces the totals of edges and sites to the totals of their methods, which count
// every sample once.
func (c *cumulative) limit(x *index) {
	for i, e := range x.edges {
		if e.Caller == NoMethod || e.Callee == NoMethod {
			continue
		}
		caller, site := x.methods[e.Caller].cumulative, &c.sites[c.siteOf[i]]
		c.edges[i] = c.edges[i].least(caller).least(x.methods[e.Callee].cumulative)
		*site = site.least(caller)
	}
}
