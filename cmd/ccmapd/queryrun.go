package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// query is a path whose methods were found in a profile.
type query struct {
	profile *profile
	path    []pathElem
	methods []methodSet    // of each element
	pruned  ccmap.MethodID // [pruned]; NoMethod if nothing is
}

func newQuery(p *profile, path []pathElem, isRegexp bool) (query, error) {
	q := query{profile: p, path: path, pruned: prunedMethod(p.Names())}
	for _, elem := range path {
		set, err := selectMethods(p.Names(), elem.name, isRegexp)
		if err != nil {
			return query{}, err
		}
		q.methods = append(q.methods, set)
	}
	return q, nil
}

// String returns the path as it was asked for.
func (q query) String() string {
	elems := make([]string, len(q.path))
	for i, elem := range q.path {
		elems[i] = elem.String()
	}
	return strings.Join(elems, " "+pathSeparator+" ")
}

// endsAt reports whether an occurrence of the path ends at a node, and returns
// the node where it begins.
func (q query) endsAt(n ccmap.Node) (begin ccmap.Node, ok bool) {
	last := len(q.path) - 1
	if !q.methods[last].has(n.Method) {
		return n, false
	}
	for i := last - 1; i >= 0; i-- {
		caller := q.profile.Node(n.Parent)
		if !q.methods[i].has(caller.Method) || !q.callsAt(i, caller.Method, n.Offset) {
			return n, false
		}
		n = caller
	}
	return n, true
}

// callsAt reports whether element i of the path may call at this offset of its
// method.
func (q query) callsAt(i int, method ccmap.MethodID, offset uint32) bool {
	elem := q.path[i]
	switch {
	case elem.atOffset:
		return elem.offset == offset
	case elem.line == 0:
		return true
	}
	return elem.line == q.profile.Names().Line(ccmap.Frame{Method: method, Offset: offset})
}

// queryResult are the counters of a path and of its neighbours. The callers add
// up to the total; so do the callees and self, in samples and time. What is not
// known of them, since contexts were pruned, stands there as [pruned].
type queryResult struct {
	query
	total    ccmap.Counters // one for every occurrence, as ccmap.Snapshot.Ref counts
	distinct ccmap.Counters // one for every sample
	self     ccmap.Counters // where the last method is innermost
	callers  neighbours
	callees  neighbours
}

// run counts the path. It passes over the nodes once for where it ends, and once
// for what is called there.
func (q query) run() queryResult {
	r := queryResult{query: q, callers: neighbours{}, callees: neighbours{}}
	s := q.profile.Snapshot
	ends := make([]bool, s.Len())
	for n := range s.Nodes() {
		if begin, ok := q.endsAt(n); ok {
			ends[n.ID] = true
			r.countEnd(n, begin)
		}
	}
	for n := range s.Nodes() {
		if ends[n.Parent] {
			r.countBelow(n)
		}
	}
	for n := range outermost(s, func(n ccmap.Node) bool { return ends[n.ID] }) {
		r.distinct = r.distinct.Add(s.Inclusive(n.ID))
	}
	r.countPruned()
	r.distinct.Activations = r.total.Activations // an activation is seen once anyway
	return r
}

// countEnd adds an occurrence from begin to end.
func (r *queryResult) countEnd(end, begin ccmap.Node) {
	c := r.profile.Inclusive(end.ID)
	if c.IsZero() {
		return // nothing recent
	}
	r.total = r.total.Add(c)
	r.self.Samples += end.Self.Samples
	r.self.Time += end.Self.Time
	caller := r.profile.Node(begin.Parent).Method
	r.callers.add(neighbour{caller, ccmap.Frame{Method: caller, Offset: begin.Offset}}, c)
}

// countBelow adds a child of the end of an occurrence: a position of the last
// method, or what it calls.
func (r *queryResult) countBelow(n ccmap.Node) {
	c := r.profile.Inclusive(n.ID)
	switch {
	case n.IsPosition():
		r.self = r.self.Add(c)
		return
	case c.IsZero(), n.Method == r.pruned && len(r.path) == 1:
		return // not recent; known by its edges
	}
	caller := r.profile.Node(n.Parent).Method
	r.callees.add(neighbour{n.Method, ccmap.Frame{Method: caller, Offset: n.Offset}}, c)
}

// neighbours are the methods that call a path, or that it calls.
type neighbours map[neighbour]ccmap.Counters

type neighbour struct {
	method ccmap.MethodID // NoMethod: the path begins the stack, nobody calls it
	call   ccmap.Frame    // the caller, at the call
}

func (ns neighbours) add(n neighbour, c ccmap.Counters) { ns[n] = ns[n].Add(c) }

// neighbourRow is one line of the callers or callees.
type neighbourRow struct {
	neighbour
	total ccmap.Counters
}

func (ns neighbours) sorted(p *profile, by string) []neighbourRow {
	rows := make([]neighbourRow, 0, len(ns))
	for n, c := range ns {
		rows = append(rows, neighbourRow{n, c})
	}
	slices.SortFunc(rows, func(a, b neighbourRow) int {
		heat := 0
		if by != sortName {
			heat = p.measure.hotter(by, a.total, b.total)
		}
		return cmp.Or(heat, compareMethods(p.Names(), a.method, b.method),
			compareMethods(p.Names(), a.call.Method, b.call.Method), cmp.Compare(a.call.Offset, b.call.Offset))
	})
	return rows
}
