package ccmap

import "iter"

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
func (c CallSite) onlyPosition() bool { return c.s.indexed().edges[c.edges[0]].callee == NoMethod }

// Caller returns the method that calls.
func (c CallSite) Caller() MethodID { return c.caller }

// Offset returns the position of the call in the caller.
func (c CallSite) Offset() uint32 { return c.offset }

// Total returns the sum over the callees but [PrunedName]: the samples that hang
// there are counted at the sites where they were taken.
func (c CallSite) Total() Counters {
	var total Counters
	pruned := c.s.names.prunedID()
	for e := range c.Callees() {
		if e.Callee() != pruned {
			total = total.Add(e.Total())
		}
	}
	return total
}

// Cumulative counts a sample once, however often recursion passes the site in it.
// Where contexts were removed, their samples may count repeatedly, but no site has
// more than its method. Its activations are those of Total.
func (c CallSite) Cumulative() Counters {
	x := c.s.calls()
	once := x.sites[x.siteOf[c.edges[0]]]
	once.Activations = c.Total().Activations
	return once
}

// Callees returns the methods called there, by their ID. One alone says that the
// call may be devirtualized or inlined.
func (c CallSite) Callees() iter.Seq[Callee] {
	return func(yield func(Callee) bool) {
		for _, i := range c.edges {
			e := c.s.indexed().edges[i]
			if e.callee != NoMethod && !yield(Callee{c.s, e}) {
				return
			}
		}
	}
}

// sameSite returns how many of the edges, sorted by site, have the first's.
func sameSite(x *index, calls []uint32) int {
	n := 1
	for n < len(calls) && x.edges[calls[n]].site == x.edges[calls[0]].site {
		n++
	}
	return n
}

// Callee is an edge, a call site and what it calls, in any context (the paper's
// Callee).
type Callee struct {
	s    *Snapshot
	edge edge
}

// Edges returns all edges, by callee, caller and offset.
func (s *Snapshot) Edges() iter.Seq[Callee] {
	return func(yield func(Callee) bool) {
		for _, e := range s.indexed().edges {
			if e.caller != NoMethod && e.callee != NoMethod && !yield(Callee{s, e}) {
				return
			}
		}
	}
}

// Caller returns the method that calls.
func (c Callee) Caller() MethodID { return c.edge.caller }

// Offset returns the position of the call in the caller.
func (c Callee) Offset() uint32 { return c.edge.site }

// Callee returns the method that is called.
func (c Callee) Callee() MethodID { return c.edge.callee }

// Total counts a sample once for every occurrence of the edge in it.
func (c Callee) Total() Counters { return c.edge.total }

// Cumulative counts a sample once, as that of [CallSite] does.
func (c Callee) Cumulative() Counters {
	once := c.s.calls().edges[c.s.indexed().number(c.edge.edgeKey)]
	once.Activations = c.edge.total.Activations
	return once
}

// Ref returns the edge as a call in the shortest context there is, itself.
func (c Callee) Ref() CalleeRef {
	nodes := c.s.indexed().nodes[c.edge.lo:c.edge.hi]
	tops := make([]NodeID, len(nodes))
	for i, n := range nodes {
		tops[i] = c.s.at(n).parent
	}
	path := []Frame{{c.edge.callee, NoOffset}, {c.edge.caller, c.edge.site}}
	return CalleeRef{s: c.s, path: path, ends: nodes, tops: tops, edge: &c.edge}
}

// Contexts returns the edge in the contexts that are one caller longer. Their
// own Callers lead further up.
func (c Callee) Contexts() iter.Seq[CalleeRef] { return c.Ref().Callers() }
