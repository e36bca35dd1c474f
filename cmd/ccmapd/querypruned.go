package main

import "github.com/ccmapd/ccmapd/ccmap"

// countPruned adds what nodes had counted that were pruned. Of them their edges
// are known, and so the whole of a path of one or two methods, but of longer
// ones nothing.
func (r *queryResult) countPruned() {
	for e := range r.profile.PrunedEdges() {
		switch len(r.path) {
		case 1:
			r.countPrunedEdge(e)
		case 2:
			r.countPrunedPath(e)
		}
	}
	if len(r.path) > 1 {
		return
	}
	for m := range r.profile.PrunedMethods() {
		if r.methods[0].has(m.Method) {
			r.self = r.self.Add(m.Self)
		}
	}
	if ids := r.methods[0].ids(); len(ids) == 1 {
		m, _ := r.profile.Method(ids[0])
		r.distinct = m.Cumulative()
	}
}

// countPrunedEdge adds an edge that leads to the one method of the path, or from
// there.
func (r *queryResult) countPrunedEdge(e ccmap.PrunedEdge) {
	call := ccmap.Frame{Method: e.Caller, Offset: e.Offset}
	if r.methods[0].has(e.Callee) {
		r.total = r.total.Add(e.Total)
		r.callers.add(neighbour{e.Caller, call}, e.Total)
	}
	if r.methods[0].has(e.Caller) && e.Callee != ccmap.NoMethod {
		r.callees.add(neighbour{e.Callee, call}, e.Total)
	}
}

// countPrunedPath adds an edge that is the path. What was above and below it is
// not known.
func (r *queryResult) countPrunedPath(e ccmap.PrunedEdge) {
	if !r.methods[0].has(e.Caller) || !r.methods[1].has(e.Callee) || !r.callsAt(0, e.Caller, e.Offset) {
		return
	}
	r.total = r.total.Add(e.Total)
	pruned := neighbour{r.pruned, ccmap.Frame{Method: r.pruned, Offset: ccmap.NoOffset}}
	r.callers.add(pruned, e.Total)
	r.callees.add(pruned, e.Total)
}

// prunedMethod returns the pseudo method [pruned], NoMethod if there is none.
func prunedMethod(names *ccmap.Names) ccmap.MethodID {
	id, ok := names.Lookup(ccmap.PrunedName, "")
	if !ok {
		return ccmap.NoMethod
	}
	return id
}

// isLowerBound reports whether there may be more of the path than was counted.
func (r queryResult) isLowerBound() bool { return r.profile.isPruned() && len(r.path) > 2 }

// isDistinctLowerBound reports the same of the samples that have it.
func (r queryResult) isDistinctLowerBound() bool {
	return r.profile.isPruned() && (len(r.path) > 1 || len(r.methods[0].ids()) > 1)
}

// notes say what of the result is a lower bound, and what to do about none.
func (r queryResult) notes() []string {
	switch {
	case r.isLowerBound():
		return r.profile.lowerBounds("Paths of three methods and more")
	case r.total.IsZero() && len(r.path) > 1:
		return []string{"No stack has this path: each '>' is a direct call. 'ccmapd contexts' lists who\n" +
			"calls a method, and from where."}
	}
	return nil
}
