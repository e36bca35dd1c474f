package ccmap

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// MethodProfile is the total of one method, in any context (the paper's
// MethodProfile).
type MethodProfile struct {
	s      *Snapshot
	method MethodID
}

// Methods returns the profiles of all sampled methods, by their ID.
func (s *Snapshot) Methods() iter.Seq[MethodProfile] {
	return func(yield func(MethodProfile) bool) {
		for id, m := range s.indexed().methods {
			if m.seen && !yield(MethodProfile{s, MethodID(id)}) {
				return
			}
		}
	}
}

// Cumulative returns the cumulative counters of all methods, by their ids, as [MethodProfile.Cumulative] has them. The
// first call walks all contexts. That is a tenth of what the first [Snapshot.Methods] takes, which knows all edges. The
// caller must not change the slice.
func (s *Snapshot) Cumulative() []Counters {
	s.methods.once.Do(func() { s.methods.sums = s.sumCumulative() })
	return s.methods.sums
}

// sumCumulative adds up the nodes that are outermost of their method.
func (s *Snapshot) sumCumulative() []Counters {
	all, sums := make([]Counters, s.names.Len()), s.sums()
	for n := range s.outermost() {
		c, below := &all[s.at(n).method], sums.of(n)
		*c = c.Add(below.counters())
	}
	for p := range s.PrunedMethods() {
		all[p.Method] = all[p.Method].Add(p.Cumulative)
	}
	for n := range s.Nodes() {
		if n.Method != NoMethod && n.Self.Activations > 0 {
			all[n.Method] = all[n.Method].Add(Counters{Activations: n.Self.Activations})
		}
	}
	for e := range s.PrunedEdges() {
		if e.Callee != NoMethod {
			all[e.Callee] = all[e.Callee].Add(Counters{Activations: e.Total.Activations})
		}
	}
	return all
}

// Method returns the profile of one method, and whether it was sampled.
func (s *Snapshot) Method(id MethodID) (MethodProfile, bool) {
	methods := s.indexed().methods
	ok := int64(id) < int64(len(methods)) && methods[id].seen
	return MethodProfile{s, id}, ok
}

func (p MethodProfile) totals() methodTotals {
	methods := p.s.indexed().methods
	if int64(p.method) >= int64(len(methods)) {
		return methodTotals{}
	}
	return methods[p.method]
}

// ID returns the method's id in the snapshot's Names.
func (p MethodProfile) ID() MethodID { return p.method }

// Method returns the method's description.
func (p MethodProfile) Method() Method { return p.s.names.At(p.method) }

// Total counts a sample once for every frame of the method in it, as the paper
// does: recursion counts repeatedly.
func (p MethodProfile) Total() Counters { return p.totals().total }

// Cumulative counts a sample once, however many frames of the method are in it
// ("cum" in pprof). Its activations are the same as in Total.
func (p MethodProfile) Cumulative() Counters { return p.totals().cumulative }

// Self counts the samples whose innermost frame is the method's ("flat" in
// pprof). Its activations are the same as in Total.
func (p MethodProfile) Self() Counters { return p.totals().self }

// Lines returns Self by position, in the order of offsets.
func (p MethodProfile) Lines() iter.Seq2[uint32, Counters] {
	return func(yield func(uint32, Counters) bool) {
		x := p.s.indexed()
		unknown := p.Self()
		for _, i := range x.callees(p.method) {
			e := &x.edges[i]
			if e.Callee != NoMethod {
				continue
			}
			unknown.Samples -= e.total.Samples
			unknown.Time -= e.total.Time
			if !yield(e.Site, e.total) {
				return
			}
		}
		unknown = unknown.WithCalls(Counters{})
		if !unknown.IsZero() {
			yield(NoOffset, unknown)
		}
	}
}

// CallSites returns the positions that the method was seen calling from, in any
// context, by offset.
func (p MethodProfile) CallSites() iter.Seq[CallSite] {
	return func(yield func(CallSite) bool) {
		x := p.s.indexed()
		calls := x.callees(p.method)
		for len(calls) > 0 {
			n := sameSite(x, calls)
			site := CallSite{p.s, p.method, x.edges[calls[0]].Site, calls[:n]}
			if !site.onlyPosition() && !yield(site) {
				return
			}
			calls = calls[n:]
		}
	}
}

// sameSite returns how many of the edges, sorted by site, have the first's.
func sameSite(x *index, calls []uint32) int {
	n := 1
	for n < len(calls) && x.edges[calls[n]].Site == x.edges[calls[0]].Site {
		n++
	}
	return n
}

// Callers returns the edges that lead to the method, by caller and offset.
// A method that is always the outermost frame has none.
func (p MethodProfile) Callers() iter.Seq[Callee] {
	return func(yield func(Callee) bool) {
		for _, e := range p.s.indexed().callers(p.method) {
			if e.Caller != NoMethod && !yield(Callee{p.s, e}) {
				return
			}
		}
	}
}

// CallSite is one position of a method that calls, in any context (the paper's
// CallSite).
type CallSite struct {
	s      *Snapshot
	caller MethodID
	offset uint32
	edges  []uint32 // by callee; the position, if any, last
}

// onlyPosition reports whether no call was seen there, only the position as the
// innermost frame.
func (c CallSite) onlyPosition() bool { return c.s.indexed().edges[c.edges[0]].Callee == NoMethod }

// Caller returns the method that calls.
func (c CallSite) Caller() MethodID { return c.caller }

// Offset returns the position of the call in the caller.
func (c CallSite) Offset() uint32 { return c.offset }

// Total returns the sum over the callees but [PrunedName]: the samples that hang
// there are counted at the sites where they were taken.
func (c CallSite) Total() Counters {
	var total Counters
	for e := range c.Callees() {
		if e.Callee() != PrunedID {
			total = total.Add(e.Total())
		}
	}
	return total
}

// Cumulative counts a sample once, however often recursion passes the site in it.
// Where contexts were removed, their samples may count repeatedly, but no site has
// more than its method. Its activations are the same as in Total.
func (c CallSite) Cumulative() Counters {
	x := c.s.calls()
	once := x.sites[x.siteOf[c.edges[0]]]
	return once.WithCalls(c.Total())
}

// Callees returns the methods called there, by their ID. If there is only one, the
// call may be devirtualized or inlined.
func (c CallSite) Callees() iter.Seq[Callee] {
	return func(yield func(Callee) bool) {
		for _, i := range c.edges {
			e := c.s.indexed().edges[i]
			if e.Callee != NoMethod && !yield(Callee{c.s, e}) {
				return
			}
		}
	}
}

// Callee is an edge, a call site and the method that it calls, in any context (the
// paper's Callee).
type Callee struct {
	s    *Snapshot
	edge edge
}

// Edges returns all edges, by callee, caller and offset.
func (s *Snapshot) Edges() iter.Seq[Callee] {
	return func(yield func(Callee) bool) {
		for _, e := range s.indexed().edges {
			if e.Caller != NoMethod && e.Callee != NoMethod && !yield(Callee{s, e}) {
				return
			}
		}
	}
}

// Caller returns the method that calls.
func (c Callee) Caller() MethodID { return c.edge.Caller }

// Offset returns the position of the call in the caller.
func (c Callee) Offset() uint32 { return c.edge.Site }

// Callee returns the method that is called.
func (c Callee) Callee() MethodID { return c.edge.Callee }

// Total counts a sample once for every occurrence of the edge in it.
func (c Callee) Total() Counters { return c.edge.total }

// Cumulative counts a sample once, like [CallSite.Cumulative].
func (c Callee) Cumulative() Counters {
	once := c.s.calls().edges[c.s.indexed().number(c.edge.edgeKey)]
	return once.WithCalls(c.edge.total)
}

// Ref returns the edge as a call in the shortest context there is, itself.
func (c Callee) Ref() CalleeRef {
	nodes := c.s.indexed().nodes[c.edge.lo:c.edge.hi]
	tops := make([]NodeID, len(nodes))
	for i, n := range nodes {
		tops[i] = c.s.at(n).parent
	}
	path := []Frame{{c.edge.Callee, NoOffset}, {c.edge.Caller, c.edge.Site}}
	return CalleeRef{s: c.s, path: path, ends: nodes, tops: tops, edge: &c.edge}
}

// Contexts returns the edge in the contexts that are one caller longer. Their
// own Callers lead further up.
func (c Callee) Contexts() iter.Seq[CalleeRef] { return c.Ref().Callers() }

// CalleeRef is a call in one context (the paper's CalleeRef). The context is a
// sub-path of any length that ends with the call, wherever it occurs. In a
// snapshot that was [Snapshot.Pruned] it lacks the occurrences that were removed.
type CalleeRef struct {
	s    *Snapshot
	path []Frame  // innermost first
	ends []NodeID // nodes of the innermost frame of each occurrence
	tops []NodeID // nodes of the outermost frame of each
	edge *edge    // set by Callee.Ref: the path is this edge; else nil
}

// Path returns the frames of the context, innermost first: the callee, with
// NoOffset as it may be anywhere, and its callers at their calls. The caller
// must not change it.
func (r CalleeRef) Path() []Frame { return r.path }

// Total counts a sample once for every occurrence of the path in it. It is exact
// for [Callee.Ref] in any snapshot, as the edge's total is.
func (r CalleeRef) Total() Counters {
	if r.edge != nil {
		return r.edge.total
	}
	var total Counters
	for _, n := range r.ends {
		total = total.Add(r.s.Inclusive(n))
	}
	return total
}

// Callers returns the contexts that are one caller longer, by caller and
// offset. Occurrences at an outermost frame have none.
func (r CalleeRef) Callers() iter.Seq[CalleeRef] {
	return func(yield func(CalleeRef) bool) {
		for caller, at := range groups(len(r.ends), r.callerOf) {
			if caller.Method != NoMethod && !yield(r.above(caller, at)) {
				return
			}
		}
	}
}

// callerOf returns the frame above occurrence i, at its call; NoMethod above an
// outermost frame.
func (r CalleeRef) callerOf(i int) Frame {
	top := r.s.at(r.tops[i])
	return Frame{Method: r.s.at(top.parent).method, Offset: top.offset}
}

// above returns the context with one more caller, at these occurrences.
func (r CalleeRef) above(caller Frame, at []int) CalleeRef {
	longer := CalleeRef{s: r.s, path: append(slices.Clip(r.path), caller)}
	for _, i := range at {
		longer.ends = append(longer.ends, r.ends[i])
		longer.tops = append(longer.tops, r.s.at(r.tops[i]).parent)
	}
	return longer
}

// CallSites returns the positions that the callee calls from in this context,
// by offset.
func (r CalleeRef) CallSites() iter.Seq[CallSiteRef] {
	return func(yield func(CallSiteRef) bool) {
		calls := r.calls()
		site := func(i int) Frame { return Frame{Offset: r.s.at(calls.ends[i]).offset} }
		for at, group := range groups(len(calls.ends), site) {
			if !yield(CallSiteRef{calls.only(group), at.Offset}) {
				return
			}
		}
	}
}

// calls returns all calls made from the ends; the path is still r's.
func (r CalleeRef) calls() CalleeRef {
	calls := CalleeRef{s: r.s, path: r.path}
	for i, end := range r.ends {
		for c := range r.s.children().Children(uint32(end)) {
			if child := NodeID(c); r.s.at(child).method != NoMethod {
				calls.ends = append(calls.ends, child)
				calls.tops = append(calls.tops, r.tops[i])
			}
		}
	}
	return calls
}

// only returns r at these occurrences alone.
func (r CalleeRef) only(at []int) CalleeRef {
	some := CalleeRef{s: r.s, path: r.path}
	for _, i := range at {
		some.ends = append(some.ends, r.ends[i])
		some.tops = append(some.tops, r.tops[i])
	}
	return some
}

// CallSiteRef is a position that calls, in one context (the paper's
// CallSiteRef).
type CallSiteRef struct {
	calls  CalleeRef // ends are the callees, whose frame the path does not have yet
	offset uint32
}

// Offset returns the position of the call in the innermost method of the
// context.
func (c CallSiteRef) Offset() uint32 { return c.offset }

// Total returns the sum over the callees but [PrunedName], like [CallSite.Total]:
// a lower bound where contexts were removed.
func (c CallSiteRef) Total() Counters {
	var total Counters
	for _, n := range c.calls.ends {
		if c.calls.s.at(n).method != PrunedID {
			total = total.Add(c.calls.s.Inclusive(n))
		}
	}
	return total
}

// Callees returns the methods called there in this context, by their ID.
func (c CallSiteRef) Callees() iter.Seq[CalleeRef] {
	return func(yield func(CalleeRef) bool) {
		callee := func(i int) Frame {
			return Frame{Method: c.calls.s.at(c.calls.ends[i]).method, Offset: NoOffset}
		}
		for inner, group := range groups(len(c.calls.ends), callee) {
			ref := c.calls.only(group)
			ref.path = append([]Frame{inner}, ref.path...)
			ref.path[1].Offset = c.offset
			if !yield(ref) {
				return
			}
		}
	}
}

// groups returns the numbers below n by their key, in the order of keys. The numbers
// of a group are in their own order.
func groups(n int, key func(int) Frame) iter.Seq2[Frame, []int] {
	byKey := make(map[Frame][]int)
	for i := range n {
		k := key(i)
		byKey[k] = append(byKey[k], i)
	}
	keys := slices.SortedFunc(maps.Keys(byKey), func(a, b Frame) int {
		return cmp.Or(cmp.Compare(a.Method, b.Method), cmp.Compare(a.Offset, b.Offset))
	})
	return func(yield func(Frame, []int) bool) {
		for _, k := range keys {
			if !yield(k, byKey[k]) {
				return
			}
		}
	}
}

// AnyOffset in a [PathElem] stands for every call site.
const AnyOffset uint32 = 1 << 31

// PathElem is one method of a sub-path, and where it calls the next.
type PathElem struct {
	Method MethodID
	Site   uint32 // offset of the call to the next; AnyOffset: any call. Ignored in the last
}

// Ref returns the counter of a sub-path, outermost first, in any context:
// the paper's MethodProfile for one method, its Callee for two, and its
// CalleeRef for more. A sample counts once for every occurrence in it. It is
// exact except for paths of three methods and more in a snapshot that was
// [Snapshot.Pruned]: there it is a lower bound. An empty path, or one that was
// never seen, has zero counters.
//
// It looks at the nodes that carry the path's last edge, and from each up.
func (s *Snapshot) Ref(path []PathElem) Counters {
	var total Counters
	if len(path) == 0 || path[len(path)-1].Method == NoMethod {
		return total
	}
	x := s.indexed()
	callers, last := path[:len(path)-1], path[len(path)-1].Method
	for _, e := range x.callers(last) {
		if len(callers) > 0 && !callers[len(callers)-1].calls(e.Caller, e.Site) {
			continue
		}
		if len(callers) < 2 {
			total = total.Add(e.total)
			continue
		}
		for _, n := range x.nodes[e.lo:e.hi] {
			if s.hasAbove(n, callers) {
				total = total.Add(s.Inclusive(n))
			}
		}
	}
	return total
}

// calls reports whether a call at that site is one of the element's.
func (p PathElem) calls(caller MethodID, site uint32) bool {
	return p.Method == caller && caller != NoMethod && (p.Site == AnyOffset || p.Site == site)
}

// hasAbove reports whether the callers of node n end with the path.
func (s *Snapshot) hasAbove(n NodeID, callers []PathElem) bool {
	for i := len(callers) - 1; i >= 0; i-- {
		up := s.at(n).parent
		if up == 0 || !callers[i].calls(s.at(up).method, s.at(n).offset) {
			return false
		}
		n = up
	}
	return true
}
