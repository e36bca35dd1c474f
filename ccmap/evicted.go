package ccmap

import (
	"cmp"
	"iter"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// PrunedEdge holds the counts of the nodes that pruning removed, by the edge that
// led to them.
type PrunedEdge struct {
	Caller MethodID // NoMethod: the callee was an outermost frame
	Offset uint32
	Callee MethodID // NoMethod: a position of the caller
	Total  Counters // samples and time inclusive
	Recent Counters // of the window; activations 0
}

// PrunedMethod holds the counts of the nodes that pruning removed, by method.
// Activations are 0: the edges have them.
type PrunedMethod struct {
	Method           MethodID
	Self, Cumulative Counters
	RecentSelf       Counters // of the window
	RecentCumulative Counters
}

// AddPruned adds to the counts of removed nodes that an edge led to. It is for
// decoders, after the nodes. Activations count in the map's total; samples and time
// do not, as they are counted at the [pruned] nodes. Negative counts are taken as 0,
// methods that Names does not hold as [UnknownName]. An edge of two times NoMethod is
// dropped.
func (m *Map) AddPruned(e PrunedEdge) {
	if e.Caller == NoMethod && e.Callee == NoMethod {
		return
	}
	m.evicted.own(&m.recent.clock)
	b := &m.evicted.edges[m.evicted.edge(edgeKey{Caller: m.knownOrNone(e.Caller), Site: e.Offset, Callee: m.knownOrNone(e.Callee)})]
	b.total = b.total.Add(Counters{
		Samples:     max(e.Total.Samples, 0),
		Time:        max(e.Total.Time, 0),
		Activations: admit(&m.total.Activations, e.Total.Activations),
	})
	if m.recent.on() {
		b.recent.add(e.Recent.weights().times(m.recent.scale))
	}
}

func (m *Map) knownOrNone(id MethodID) MethodID {
	if id == NoMethod {
		return NoMethod
	}
	return m.known(id, m.names.Len())
}

// AddPrunedMethod adds to the counts of removed nodes of a method, as AddPruned does
// for an edge.
func (m *Map) AddPrunedMethod(p PrunedMethod) {
	m.evicted.own(&m.recent.clock)
	b := m.evicted.method(m.known(p.Method, m.names.Len()))
	b.self.saturate(p.Self)
	b.cumulative.saturate(p.Cumulative)
	if m.recent.on() {
		b.recentSelf.add(p.RecentSelf.weights().times(m.recent.scale))
		b.recentCumulative.add(p.RecentCumulative.weights().times(m.recent.scale))
	}
}

// Pruned reports whether contexts were removed from the map, so that the counts of the
// remaining ones are lower bounds. Totals of methods and edges are exact nevertheless.
func (s *Snapshot) Pruned() bool {
	return s.meta.Pruned != PruneStats{} || len(s.evicted.Keys) > 0
}

// PrunedTotal returns the samples and time that hang at [PrunedName]: their methods
// and edges are known, but no longer their contexts.
func (s *Snapshot) PrunedTotal() Counters {
	var total Counters
	for id := NodeID(1); uint32(id) < s.nodes.len; id++ {
		if s.at(id).method == PrunedID {
			total = total.Add(s.columns.at(id))
		}
	}
	return total
}

// PrunedEdges returns the counts of removed nodes by edge, in the order of caller,
// offset and callee.
func (s *Snapshot) PrunedEdges() iter.Seq[PrunedEdge] { return slices.Values(s.removals().edges) }

// PrunedMethods returns the counts of removed nodes by method, in the order of IDs.
func (s *Snapshot) PrunedMethods() iter.Seq[PrunedMethod] { return slices.Values(s.removals().methods) }

// removed are the evicted counters as readers see them: sorted, and the recent ones
// in whole numbers.
type removed struct {
	edges   []PrunedEdge
	methods []PrunedMethod
}

func (s *Snapshot) removals() *removed {
	s.removed.once.Do(func() { s.removed.build(&s.evicted, s.recent.fade(s.evicted.octave)) })
	return &s.removed.removed
}

func (p *removed) build(b *evicted, fade float64) {
	p.edges = make([]PrunedEdge, len(b.Keys))
	for i, key := range b.Keys {
		e := &b.edges[i]
		p.edges[i] = PrunedEdge{Caller: key.Caller, Offset: key.Site, Callee: key.Callee, Total: e.total}
		p.edges[i].Recent = new(remainderRounding).round(e.recent.times(fade))
	}
	slices.SortFunc(p.edges, func(a, b PrunedEdge) int { return a.key().CompareByCaller(b.key()) })
	p.methods = make([]PrunedMethod, len(b.methods))
	for i := range b.methods {
		m := &b.methods[i]
		p.methods[i] = PrunedMethod{
			Method: m.method, Self: m.self.counters(), Cumulative: m.cumulative.counters(),
			RecentSelf:       new(remainderRounding).round(m.recentSelf.times(fade)),
			RecentCumulative: new(remainderRounding).round(m.recentCumulative.times(fade)),
		}
	}
	slices.SortFunc(p.methods, func(a, b PrunedMethod) int { return cmp.Compare(a.Method, b.Method) })
}

func (e PrunedEdge) key() edgeKey { return edgeKey{Caller: e.Caller, Site: e.Offset, Callee: e.Callee} }

// recent returns evicted counters whose totals are the recent ones.
func (p *removed) recent() evicted {
	var r evicted
	for _, e := range p.edges {
		r.Keys, r.edges = append(r.Keys, e.key()), append(r.edges, evictedEdge{total: e.Recent})
	}
	for _, m := range p.methods {
		method := evictedMethod{method: m.Method}
		method.self.saturate(m.RecentSelf)
		method.cumulative.saturate(m.RecentCumulative)
		r.methods = append(r.methods, method)
	}
	return r
}

// evicted are the counters of removed nodes. They keep the totals of edges and methods
// exact. There is one for every edge that a removed node had: their number is bounded
// by the edges of the program, not by its contexts.
//
// Snapshots share keys, which are only appended to, and edges and methods, which
// are copied before they are written to after a snapshot.
type evicted struct {
	tree.Edges[MethodID]
	edges   []evictedEdge // by number
	methods []evictedMethod
	shared  bool  // with a snapshot: edges and methods
	octave  int64 // of all recent weights

	methodAt []uint32 // index in methods plus 1, by method; the writer's alone
}

type evictedEdge struct {
	total  Counters
	recent weights
}

type evictedMethod struct {
	method                       MethodID
	self, cumulative             span
	recentSelf, recentCumulative weights
}

// own makes the evicted counters the writer's alone, in the octave of the clock.
func (b *evicted) own(c *clock) {
	if b.shared {
		b.edges, b.methods, b.shared = slices.Clone(b.edges), slices.Clone(b.methods), false
	}
	if b.octave != c.octave {
		b.fade(octaves(b.octave - c.octave))
		b.octave = c.octave
	}
}

// fade multiplies all recent weights.
func (b *evicted) fade(f float64) {
	for i := range b.edges {
		b.edges[i].recent = b.edges[i].recent.times(f)
	}
	for i := range b.methods {
		m := &b.methods[i]
		m.recentSelf, m.recentCumulative = m.recentSelf.times(f), m.recentCumulative.times(f)
	}
}

// forgetRecent drops all recent weights, for a clock that starts anew.
func (b *evicted) forgetRecent() {
	b.own(&clock{octave: b.octave})
	b.fade(0)
	b.octave = 0
}

// freeze returns the evicted counters as they are, for readers; b remains the writer's.
func (b *evicted) freeze() evicted {
	b.shared = true
	return evicted{Edges: tree.Edges[MethodID]{Keys: b.Keys}, edges: b.edges, methods: b.methods, octave: b.octave}
}

// edge returns the index of an edge, and adds it if it is new.
func (b *evicted) edge(key edgeKey) uint32 {
	n := b.Number(key)
	b.addEdges()
	return n
}

// edgeBelow returns the index of an edge that was seen below another, and adds it if
// it is new.
func (b *evicted) edgeBelow(above uint32, key edgeKey) uint32 {
	n := b.NumberBelow(above, key)
	b.addEdges()
	return n
}

// addEdges gives new keys their counters.
func (b *evicted) addEdges() {
	if len(b.edges) < len(b.Keys) {
		b.edges = append(b.edges, evictedEdge{})
	}
}

// method returns the counters of a method, and adds them if it is new.
func (b *evicted) method(id MethodID) *evictedMethod {
	if int64(id) >= int64(len(b.methodAt)) {
		b.methodAt = append(b.methodAt, make([]uint32, int(id)+1-len(b.methodAt))...)
	}
	if b.methodAt[id] == 0 {
		b.methods = append(b.methods, evictedMethod{method: id})
		b.methodAt[id] = uint32(len(b.methods))
	}
	return &b.methods[b.methodAt[id]-1]
}

// bytes returns the memory held.
func (b *evicted) bytes() int64 {
	return b.Edges.Bytes() +
		int64(cap(b.edges))*int64(unsafe.Sizeof(evictedEdge{})) +
		int64(cap(b.methods))*int64(unsafe.Sizeof(evictedMethod{})) +
		int64(cap(b.methodAt))*int64(unsafe.Sizeof(uint32(0)))
}

// evict adds the counts of the removed nodes to the evicted counters.
func (p *pruning) evict() {
	b := &p.m.evicted
	b.own(&p.m.recent.clock)
	e := evictor{pruning: p, evicted: b, edges: make([]uint32, len(p.sums))}
	for r := range p.keep {
		if p.fate[r] != kept {
			e.addPath(r)
		}
	}
	e.addAllCumulative()
}

// evictor adds removed nodes to evicted counters, path by path.
type evictor struct {
	*pruning
	evicted *evicted
	edges   []uint32 // by path: the edge to its last node, if that node is removed
}

// addPath adds the removed nodes of a path to the counters of their edges, and the
// counts of its last node to its method.
func (e *evictor) addPath(r int) {
	for n, end := e.gone(r), e.last[r]+1; n < end; {
		some := e.old.from(n, end)
		e.addEdges(r, n, some)
		n += NodeID(len(some))
	}
	if e.fate[r] != absorbed {
		e.addSelf(e.last[r])
	}
}

// addEdges adds removed nodes of a path, from n on, to the counters of their edges.
func (e *evictor) addEdges(r int, n NodeID, some []node) {
	edge, caller := e.edgeAbove(r, n), e.old.at(some[0].parent).method
	cells := e.old.columns.from(n, n+NodeID(len(some)))[:len(some)]
	sum := e.sums[r].counters()
	for i := range some {
		what := &some[i]
		if what.method == PrunedID {
			break // an earlier prune has counted it at its own edges
		}
		edge = e.evicted.edgeBelow(edge, edgeKey{Caller: caller, Site: what.offset, Callee: what.method})
		sum.Activations = int64(cells[i].activations)
		counters := &e.evicted.edges[edge]
		counters.total = counters.total.Add(sum)
		if e.lately != nil {
			counters.recent.add(e.lately[r])
		}
		caller = what.method
	}
	e.edges[r] = edge
}

// edgeAbove returns the edge above a removed node of a path, or any edge if its parent
// is kept.
func (e *evictor) edgeAbove(r int, n NodeID) uint32 {
	switch {
	case n > e.gone(r):
		return e.edges[r]
	case e.keep[r] == 0:
		return e.edges[e.Above[r]]
	}
	return 0
}

// addSelf adds the counts of the last node of a removed path to its method.
func (e *evictor) addSelf(n NodeID) {
	method := e.old.at(n).method
	switch method {
	case NoMethod:
		method = e.old.at(e.old.at(n).parent).method
	case PrunedID:
		return
	}
	if over, ok := e.old.columns.wide[n]; ok {
		edge := &e.evicted.edges[e.evicted.edge(e.old.edgeOf(n))]
		edge.total.Activations = addSaturated(edge.total.Activations, over.Activations)
	}
	b := e.evicted.method(method)
	b.self.saturate(e.old.columns.at(n))
	if e.lately != nil {
		b.recentSelf.add(e.old.recent.inOctave(n))
	}
}

// addAllCumulative goes through the paths depth first, to know which nodes are the
// outermost of their method.
func (e *evictor) addAllCumulative() {
	links := e.links()
	open := newOpenMethods(e.m.names.Len())
	open.enter()
	e.visit(open, 0)
	for r, entered := range links.Walk() {
		if !entered {
			open.leave()
			continue
		}
		open.enter()
		e.visit(open, int(r))
	}
}

// links links the paths, except paths that are kept with everything below them.
func (p *pruning) links() tree.Links {
	links := tree.NewLinks(len(p.sums))
	for r := len(p.sums) - 1; r > 0; r-- {
		if !links.Leaf(uint32(r)) || !p.whole(r) {
			links.Add(p.Above[r], uint32(r))
		}
	}
	return links
}

// visit opens the methods of a path. If the outermost node of a method is a removed
// one, it adds the sum of the path to the method.
func (e *evictor) visit(open *openMethods, r int) {
	gone, end := e.gone(r), e.last[r]+1
	for n := e.first(r); n < gone; {
		some := e.old.from(n, gone)
		open.openAll(some)
		n += NodeID(len(some))
	}
	for n := gone; n < end; {
		some := e.old.from(n, end)
		for _, m := range open.openAll(some) {
			e.addCumulative(m, r)
		}
		n += NodeID(len(some))
	}
}

func (e *evictor) addCumulative(method MethodID, r int) {
	b := e.evicted.method(method)
	b.cumulative.saturate(e.sums[r].counters())
	if e.lately != nil {
		b.recentCumulative.add(e.lately[r])
	}
}

// openMethods are the methods on the way from the root to a path, and which of its
// paths has opened each.
type openMethods struct {
	has    []bool // by method
	opened []MethodID
	before []int // by path on the way: how many were opened before it
}

// newOpenMethods has [pruned] open everywhere: the counts that hang there have been
// counted in the methods above it.
func newOpenMethods(methods int) *openMethods {
	o := &openMethods{has: make([]bool, methods)}
	o.has[PrunedID] = true
	return o
}

func (o *openMethods) enter() { o.before = append(o.before, len(o.opened)) }

func (o *openMethods) leave() {
	last := len(o.before) - 1
	for _, m := range o.opened[o.before[last]:] {
		o.has[m] = false
	}
	o.opened, o.before = o.opened[:o.before[last]], o.before[:last]
}

// openAll opens the methods of nodes that follow each other down, and returns the
// methods that were not open.
func (o *openMethods) openAll(path []node) []MethodID {
	before := len(o.opened)
	for i := range path {
		if m := path[i].method; m != NoMethod && !o.has[m] {
			o.has[m] = true
			o.opened = append(o.opened, m)
		}
	}
	return o.opened[before:]
}
