package ccmap

// AnyOffset in a [PathElem] stands for every call site.
const AnyOffset uint32 = 1 << 31

// PathElem is one method of a sub-path, and where it calls the next.
type PathElem struct {
	Method MethodID
	Site   uint32 // offset of the call to the next; AnyOffset: wherever. Not looked at in the last
}

// Ref returns the counter of a sub-path, outermost first, in whatever context:
// the paper's MethodProfile for one method, its Callee for two, and its
// CalleeRef for more. A sample counts once for every occurrence in it. It is
// exact but for paths of three methods and more in a snapshot that was
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
		if len(callers) > 0 && !callers[len(callers)-1].calls(e.caller, e.site) {
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

// calls reports whether a call from there is one of the element's.
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
