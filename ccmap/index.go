package ccmap

import (
	"cmp"
	"slices"
	"sort"
)

// index is what the views stand on: the nodes grouped by the edge that leads to
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

type edgeKey struct {
	caller MethodID
	site   uint32
	callee MethodID
}

type edge struct {
	edgeKey
	lo, hi uint32 // of index.nodes
	total  Counters
}

// methodTotals are the totals of a method, as [MethodProfile] defines them.
type methodTotals struct {
	total, cumulative, self Counters
	seen                    bool // in a node, or in one that was removed
}

func (k edgeKey) compareByCallee(o edgeKey) int {
	return cmp.Or(cmp.Compare(k.callee, o.callee), cmp.Compare(k.caller, o.caller), cmp.Compare(k.site, o.site))
}

func (k edgeKey) compareByCaller(o edgeKey) int {
	return cmp.Or(cmp.Compare(k.caller, o.caller), cmp.Compare(k.site, o.site), cmp.Compare(k.callee, o.callee))
}

func (s *Snapshot) indexed() *index {
	s.index.once.Do(func() { s.index.build(s) })
	return &s.index.index
}

// build makes the index in time linear in the nodes, but for sorting the edges,
// which are few.
func (x *index) build(s *Snapshot) {
	of := x.findEdges(s)
	x.sortByCaller()
	x.groupNodes(of)
	x.sumEdges(s, of)
	x.addBases(s)
	x.sumMethods(s)
}

// findEdges finds and sorts the edges, and returns each node's.
func (x *index) findEdges(s *Snapshot) []uint32 {
	of, keys := s.numberEdges()
	byCallee := sortedIndices(keys, edgeKey.compareByCallee)
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
// Most nodes are followed by the edge that followed the last node of the same
// edge: these cost no hashing.
func (s *Snapshot) numberEdges() (of []uint32, keys []edgeKey) {
	of = make([]uint32, s.nodes.len)
	numbers := make(map[edgeKey]uint32)
	for e := range s.PrunedEdges() {
		numbers[e.key()] = uint32(len(keys))
		keys = append(keys, e.key())
	}
	usual := make([]uint32, len(keys)+1) // by edge: the one last seen below it, or any
	for id := NodeID(1); uint32(id) < s.nodes.len; id++ {
		key, above := s.edgeOf(id), of[s.at(id).parent]
		if guess := usual[above]; int(guess) < len(keys) && keys[guess] == key {
			of[id] = guess
			continue
		}
		k, ok := numbers[key]
		if !ok {
			k = uint32(len(keys))
			numbers[key] = k
			keys, usual = append(keys, key), append(usual, 0)
		}
		of[id], usual[above] = k, k
	}
	return of, keys
}

func sortedIndices(keys []edgeKey, compare func(a, b edgeKey) int) []uint32 {
	order := make([]uint32, len(keys))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return compare(keys[a], keys[b]) })
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

func (x *index) sortByCaller() {
	keys := make([]edgeKey, len(x.edges))
	for i := range keys {
		keys[i] = x.edges[i].edgeKey
	}
	x.byCaller = sortedIndices(keys, edgeKey.compareByCaller)
}

// sumEdges adds up the edges' totals and, of the methods', what the nodes
// themselves count, in the order of nodes. What hangs at [pruned] was counted in
// other methods, which have it as their base.
func (x *index) sumEdges(s *Snapshot, of []uint32) {
	x.methods = make([]methodTotals, s.names.Len())
	sums, pruned := s.sums(), s.names.prunedID()
	for id := NodeID(1); uint32(id) < s.nodes.len; id++ {
		e, self, below := &x.edges[of[id]], s.columns.at(id), sums.of(id)
		e.total = e.total.Add(Counters{below.samples, below.time, self.Activations})
		if self.IsZero() {
			continue
		}
		method := e.callee
		if method == NoMethod {
			method = e.caller
		}
		if method == pruned {
			continue
		}
		m := &x.methods[method]
		m.self = m.self.Add(self)
	}
}

// addBases adds what removed nodes had counted.
func (x *index) addBases(s *Snapshot) {
	for p := range s.PrunedEdges() {
		e := x.edge(p.key())
		e.total = e.total.Add(p.Total)
	}
	for p := range s.PrunedMethods() {
		m := &x.methods[p.Method]
		m.self, m.cumulative = m.self.Add(p.Self), m.cumulative.Add(p.Cumulative)
	}
}

// edge returns an edge that is there.
func (x *index) edge(key edgeKey) *edge { return &x.edges[x.number(key)] }

// number returns the index of an edge that is there.
func (x *index) number(key edgeKey) int {
	i, _ := slices.BinarySearchFunc(x.edges, key, func(e edge, k edgeKey) int { return e.compareByCallee(k) })
	return i
}

// sumMethods adds up the methods' totals from the edges and, the cumulative
// ones, from the nodes that are outermost of their method.
func (x *index) sumMethods(s *Snapshot) {
	for i := range x.edges {
		if e := &x.edges[i]; e.callee != NoMethod {
			m := &x.methods[e.callee]
			m.total = m.total.Add(e.total)
			m.seen = true
		}
	}
	sums := s.sums()
	for n := range s.outermost() {
		c, below := &x.methods[s.at(n).method].cumulative, sums.of(n)
		*c = c.Add(Counters{Samples: below.samples, Time: below.time})
	}
	for i := range x.methods {
		m := &x.methods[i]
		m.cumulative.Activations = m.total.Activations
		m.self.Activations = m.total.Activations
	}
}

// sum returns the inclusive totals of nodes, together.
func (s *Snapshot) sum(nodes []NodeID) Counters {
	var total Counters
	for _, n := range nodes {
		total = total.Add(s.Inclusive(n))
	}
	return total
}

// edgeOf returns the edge that leads to a node, which is not the root.
func (t *nodes) edgeOf(id NodeID) edgeKey {
	n := t.at(id)
	return edgeKey{caller: t.at(n.parent).method, site: n.offset, callee: n.method}
}

// callers returns the edges that lead to a method, by caller and site.
func (x *index) callers(m MethodID) []edge {
	lo := sort.Search(len(x.edges), func(i int) bool { return x.edges[i].callee >= m })
	hi := sort.Search(len(x.edges), func(i int) bool { return x.edges[i].callee > m })
	return x.edges[lo:hi]
}

// callees returns the indices of the edges that lead from a method, by site and
// callee, positions among them.
func (x *index) callees(m MethodID) []uint32 {
	caller := func(i int) MethodID { return x.edges[x.byCaller[i]].caller }
	lo := sort.Search(len(x.byCaller), func(i int) bool { return caller(i) >= m })
	hi := sort.Search(len(x.byCaller), func(i int) bool { return caller(i) > m })
	return x.byCaller[lo:hi]
}
