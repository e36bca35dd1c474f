package query

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Finder returns the methods that a text stands for; at least one, or an error. [Named] and [Matching] return an
// *[Error], whose candidates are sorted names that the text stands for (code ambiguous-method), or names that are like
// it, the likest first (code no-method).
type Finder func(names *ccmap.Names, text string) (Methods, error)

// Query is a path whose methods were found in a snapshot.
type Query struct {
	Path    Path
	Methods []Methods // of each element of Path

	snapshot *ccmap.Snapshot
}

// New finds the methods of a path in a snapshot. Its errors are the finder's.
func New(s *ccmap.Snapshot, path Path, find Finder) (*Query, error) {
	if len(path) == 0 {
		return nil, errors.New("query: the path has no element")
	}
	q := &Query{Path: path, snapshot: s}
	for _, elem := range path {
		set, err := find(s.Names(), elem.Name)
		if err != nil {
			return nil, err
		}
		q.Methods = append(q.Methods, set)
	}
	return q, nil
}

// Result has the counters of a path and of its neighbours. The callers add up to
// Total; so do the callees and Self, in samples and time. Where contexts were pruned,
// a neighbour that is not known is [pruned].
type Result struct {
	Total    ccmap.Counters // one for every occurrence, as ccmap.Snapshot.Ref counts
	Distinct ccmap.Counters // one for every sample, however often the path is on its stack
	Self     ccmap.Counters // the last method is innermost; no activations

	Callers []Neighbour // sorted by name
	Callees []Neighbour // sorted by name

	LowerBound         bool // Total may be more: contexts were pruned
	DistinctLowerBound bool // likewise Distinct
}

// Neighbour is a call one step above or below a path.
type Neighbour struct {
	Method ccmap.MethodID // ccmap.NoMethod: the path begins the stack, nothing calls it
	Call   ccmap.Frame    // the caller, at its call
	Total  ccmap.Counters
}

// Count counts the path. It takes time in proportion to the nodes of the snapshot.
func (q *Query) Count() Result {
	c := counter{Query: q, callers: neighbours{}, callees: neighbours{}}
	s := q.snapshot
	ends := make([]bool, s.Len())
	for n := range s.Nodes() {
		if begin, ok := q.endsAt(n); ok {
			ends[n.ID] = true
			c.addEnd(n, begin)
		}
	}
	for n := range s.Nodes() {
		if ends[n.Parent] {
			c.addBelow(n)
		}
	}
	for n := range Outermost(s, func(n ccmap.Node) bool { return ends[n.ID] }) {
		c.result.Distinct = c.result.Distinct.Add(s.Inclusive(n.ID))
	}
	c.addPruned()
	return c.finish()
}

// Outermost walks the occurrences of the path that no other one is above, each from its first frame to its last. No
// sample is below two of them.
func (q *Query) Outermost() iter.Seq2[ccmap.Node, ccmap.Node] {
	return func(yield func(begin, end ccmap.Node) bool) {
		for end := range Outermost(q.snapshot, func(n ccmap.Node) bool { _, ok := q.endsAt(n); return ok }) {
			begin, _ := q.endsAt(end)
			if !yield(begin, end) {
				return
			}
		}
	}
}

// endsAt reports whether an occurrence of the path ends at a node, and returns the node
// where it begins.
func (q *Query) endsAt(n ccmap.Node) (begin ccmap.Node, ok bool) {
	last := len(q.Path) - 1
	if !q.Methods[last].Has(n.Method) {
		return n, false
	}
	for i := last - 1; i >= 0; i-- {
		caller := q.snapshot.Node(n.Parent)
		if !q.Methods[i].Has(caller.Method) || !q.callsAt(i, caller.Method, n.Offset) {
			return n, false
		}
		n = caller
	}
	return n, true
}

// callsAt reports whether element i of the path may call at this offset of its method.
func (q *Query) callsAt(i int, method ccmap.MethodID, offset uint32) bool {
	elem := q.Path[i]
	switch {
	case elem.AtOffset:
		return elem.Offset == offset
	case elem.Line == 0:
		return true
	}
	return elem.Line == q.snapshot.Names().Line(ccmap.Frame{Method: method, Offset: offset})
}

// counter adds up the result of a query.
type counter struct {
	*Query
	result           Result
	callers, callees neighbours
}

// addEnd adds an occurrence from begin to end.
func (c *counter) addEnd(end, begin ccmap.Node) {
	total := c.snapshot.Inclusive(end.ID)
	if total.IsZero() {
		return // nothing recent
	}
	c.result.Total = c.result.Total.Add(total)
	c.result.Self.Samples += end.Self.Samples
	c.result.Self.Time += end.Self.Time
	caller := c.snapshot.Node(begin.Parent).Method
	c.callers.add(caller, ccmap.Frame{Method: caller, Offset: begin.Offset}, total)
}

// addBelow adds a child of the end of an occurrence: a position of the last method, or
// a method that it calls.
func (c *counter) addBelow(n ccmap.Node) {
	total := c.snapshot.Inclusive(n.ID)
	switch {
	case n.IsPosition():
		c.result.Self = c.result.Self.Add(total)
		return
	case total.IsZero(), n.Method == ccmap.PrunedID && len(c.Path) == 1:
		return // nothing recent; known by its edges
	}
	caller := c.snapshot.Node(n.Parent).Method
	c.callees.add(n.Method, ccmap.Frame{Method: caller, Offset: n.Offset}, total)
}

// addPruned adds the evicted counters of pruned contexts. They are kept by method and by
// edge: a path of one or two methods finds all of its own, a longer path none.
func (c *counter) addPruned() {
	for e := range c.snapshot.PrunedEdges() {
		switch len(c.Path) {
		case 1:
			c.addPrunedEdge(e)
		case 2:
			c.addPrunedPath(e)
		}
	}
	if len(c.Path) > 1 {
		return
	}
	for m := range c.snapshot.PrunedMethods() {
		if c.Methods[0].Has(m.Method) {
			c.result.Self = c.result.Self.Add(m.Self)
		}
	}
	if ids := c.Methods[0].IDs(); len(ids) == 1 {
		m, _ := c.snapshot.Method(ids[0])
		c.result.Distinct = m.Cumulative()
	}
}

// addPrunedEdge adds an edge that leads to the one method of the path, or from it.
func (c *counter) addPrunedEdge(e ccmap.PrunedEdge) {
	call := ccmap.Frame{Method: e.Caller, Offset: e.Offset}
	if c.Methods[0].Has(e.Callee) {
		c.result.Total = c.result.Total.Add(e.Total)
		c.callers.add(e.Caller, call, e.Total)
	}
	if c.Methods[0].Has(e.Caller) && e.Callee != ccmap.NoMethod {
		c.callees.add(e.Callee, call, e.Total)
	}
}

// addPrunedPath adds an edge that is the path. Its neighbours are not known.
func (c *counter) addPrunedPath(e ccmap.PrunedEdge) {
	if !c.Methods[0].Has(e.Caller) || !c.Methods[1].Has(e.Callee) || !c.callsAt(0, e.Caller, e.Offset) {
		return
	}
	c.result.Total = c.result.Total.Add(e.Total)
	unknown := ccmap.Frame{Method: ccmap.PrunedID, Offset: ccmap.NoOffset}
	c.callers.add(ccmap.PrunedID, unknown, e.Total)
	c.callees.add(ccmap.PrunedID, unknown, e.Total)
}

func (c *counter) finish() Result {
	r := c.result
	r.Distinct = r.Distinct.WithCalls(r.Total) // a call counts once anyway
	names := c.snapshot.Names()
	r.Callers, r.Callees = c.callers.sorted(names), c.callees.sorted(names)
	pruned := isPruned(c.snapshot)
	r.LowerBound = pruned && len(c.Path) > 2
	r.DistinctLowerBound = pruned && (len(c.Path) > 1 || len(c.Methods[0].IDs()) > 1)
	return r
}

// isPruned reports whether contexts are missing. Folded stacks show it by their frames
// alone.
func isPruned(s *ccmap.Snapshot) bool { return s.Pruned() || !s.PrunedTotal().IsZero() }

// neighbours counts calls above or below a path. The Total of its keys is zero.
type neighbours map[Neighbour]ccmap.Counters

func (ns neighbours) add(method ccmap.MethodID, call ccmap.Frame, c ccmap.Counters) {
	key := Neighbour{Method: method, Call: call}
	ns[key] = ns[key].Add(c)
}

func (ns neighbours) sorted(names *ccmap.Names) []Neighbour {
	rows := make([]Neighbour, 0, len(ns))
	for n, c := range ns {
		n.Total = c
		rows = append(rows, n)
	}
	slices.SortFunc(rows, func(a, b Neighbour) int {
		return cmp.Or(Compare(names, a.Method, b.Method), compareCalls(names, a.Call, b.Call))
	})
	return rows
}

// compareCalls orders calls by the name of the caller and the offset in it.
func compareCalls(names *ccmap.Names, a, b ccmap.Frame) int {
	return cmp.Or(Compare(names, a.Method, b.Method), cmp.Compare(a.Offset, b.Offset))
}
