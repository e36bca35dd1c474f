package ccmap

import (
	"cmp"
	"iter"
	"slices"
)

// PrunedEdge is what the nodes that pruning removed had counted, by the edge that
// led to them.
type PrunedEdge struct {
	Caller MethodID // NoMethod: the callee was an outermost frame
	Offset uint32
	Callee MethodID // NoMethod: a position of the caller
	Total  Counters // samples and time inclusive
	Recent Counters // of the window; activations 0
}

// PrunedMethod is what the nodes that pruning removed had counted, by method.
// Activations are 0: they are the edges'.
type PrunedMethod struct {
	Method           MethodID
	Self, Cumulative Counters
	RecentSelf       Counters // of the window
	RecentCumulative Counters
}

// AddPruned adds to the counts of removed nodes that an edge led to. It is for
// decoders, after the nodes: activations count in the map's total, samples and
// time are those of the [pruned] nodes. Negative counts are taken as 0, methods
// that Names does not hold as [UnknownName]. An edge of two times NoMethod is
// dropped.
func (m *Map) AddPruned(e PrunedEdge) {
	if e.Caller == NoMethod && e.Callee == NoMethod {
		return
	}
	m.bases.own(&m.recent.clock)
	b := &m.bases.edges[m.bases.edge(edgeKey{m.knownOrNone(e.Caller), e.Offset, m.knownOrNone(e.Callee)})]
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

// AddPrunedMethod is AddPruned for what a method has.
func (m *Map) AddPrunedMethod(p PrunedMethod) {
	m.bases.own(&m.recent.clock)
	b := m.bases.method(m.known(p.Method, m.names.Len()))
	b.self.saturate(p.Self)
	b.cumulative.saturate(p.Cumulative)
	if m.recent.on() {
		b.recentSelf.add(p.RecentSelf.weights().times(m.recent.scale))
		b.recentCumulative.add(p.RecentCumulative.weights().times(m.recent.scale))
	}
}

// Pruned reports whether contexts were removed from the map, so that those left
// are lower bounds. Totals of methods and edges are exact nevertheless.
func (s *Snapshot) Pruned() bool { return s.meta.Pruned != PruneStats{} || len(s.bases.keys) > 0 }

// PrunedTotal returns the samples and time that hang at [PrunedName]: what is
// known of methods and edges, but no longer of contexts.
func (s *Snapshot) PrunedTotal() Counters {
	var total Counters
	pruned := s.names.prunedID()
	for id := NodeID(1); uint32(id) < s.nodes.len && pruned != NoMethod; id++ {
		if s.at(id).method == pruned {
			total = total.Add(s.columns.at(id))
		}
	}
	return total
}

// PrunedEdges returns what removed nodes had counted, by caller, offset and
// callee: every edge that one of them had.
func (s *Snapshot) PrunedEdges() iter.Seq[PrunedEdge] { return slices.Values(s.removals().edges) }

// PrunedMethods returns the same of methods, by their ID.
func (s *Snapshot) PrunedMethods() iter.Seq[PrunedMethod] { return slices.Values(s.removals().methods) }

// removed are the bases as readers see them: sorted, and what is recent in whole
// numbers.
type removed struct {
	edges   []PrunedEdge
	methods []PrunedMethod
}

func (s *Snapshot) removals() *removed {
	s.removed.once.Do(func() { s.removed.build(&s.bases, s.recent.fade(s.bases.octave)) })
	return &s.removed.removed
}

func (p *removed) build(b *bases, fade float64) {
	p.edges = make([]PrunedEdge, len(b.keys))
	for i, key := range b.keys {
		e := &b.edges[i]
		p.edges[i] = PrunedEdge{Caller: key.caller, Offset: key.site, Callee: key.callee, Total: e.total}
		p.edges[i].Recent = new(wholes).round(e.recent.times(fade))
	}
	slices.SortFunc(p.edges, func(a, b PrunedEdge) int { return a.key().compareByCaller(b.key()) })
	p.methods = make([]PrunedMethod, len(b.methods))
	for i := range b.methods {
		m := &b.methods[i]
		p.methods[i] = PrunedMethod{
			Method: m.method, Self: m.self.counters(), Cumulative: m.cumulative.counters(),
			RecentSelf:       new(wholes).round(m.recentSelf.times(fade)),
			RecentCumulative: new(wholes).round(m.recentCumulative.times(fade)),
		}
	}
	slices.SortFunc(p.methods, func(a, b PrunedMethod) int { return cmp.Compare(a.Method, b.Method) })
}

func (e PrunedEdge) key() edgeKey { return edgeKey{e.Caller, e.Offset, e.Callee} }
