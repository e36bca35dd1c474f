package ccmap

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// CalleeRef is a call in one context (the paper's CalleeRef). The context is a
// sub-path of any length that ends with the call, wherever it occurs. In a
// snapshot that was [Snapshot.Pruned] it lacks the occurrences that were removed.
type CalleeRef struct {
	s    *Snapshot
	path []Frame  // innermost first
	ends []NodeID // nodes of the innermost frame of each occurrence
	tops []NodeID // nodes of the outermost frame of each
	edge *edge    // that the path is, if it is Callee.Ref's; else nil
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
	return r.s.sum(r.ends)
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
		for child := range r.s.children(end) {
			if r.s.at(child).method != NoMethod {
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

// Total returns the sum over the callees but [PrunedName], as that of [CallSite]
// does: a lower bound where contexts were removed.
func (c CallSiteRef) Total() Counters {
	var total Counters
	pruned := c.calls.s.names.prunedID()
	for _, n := range c.calls.ends {
		if c.calls.s.at(n).method != pruned {
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

// groups returns the numbers below n by their key, in the order of keys, and
// within a group in their own.
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
