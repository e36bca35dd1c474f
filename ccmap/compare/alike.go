package compare

import (
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// LeftOut is a thing that only one of two profiles can have, however the program behaves.
type LeftOut struct {
	What    string  // for people: "time in the kernel"
	Why     string  // one profile cannot have it, for people
	Callers bool    // it counts for its callers, else not at all
	ShareA  float64 // percent of the weight of profile A
	ShareB  float64
}

// unseen is a thing that a kind of profiles cannot have.
type unseen struct {
	what, why string
	callers   bool // it counts for its callers, else not at all
	self      bool // its callees stay
	is        func(ccmap.Method) bool
}

var (
	// A timer's signal that comes in the kernel is handled on the way out of it, so runtime/pprof counts
	// its time for the caller.
	kernelOfCallers = &unseen{"time in the kernel", "runtime/pprof has no frames of it", true, false, ccmap.Method.IsKernel}
	kernelTime      = &unseen{"time in the kernel", "one profile was not permitted to have any", false, false, ccmap.Method.IsKernel}

	// The runtime sets timers on threads that run goroutines (setThreadCPUProfiler, Go 1.18 to 1.27).
	monitor = &unseen{"runtime.sysmon", "runtime/pprof samples no thread without goroutines", false, false, isNamed("runtime.sysmon")}

	// A signal to preempt that comes with the timer's is delivered first. Then the timer's finds the function that
	// handles preemption on top, which takes hardly any time itself.
	preemption = &unseen{"runtime.asyncPreempt", "signals of runtime/pprof meet it too often", true, true, isNamed("runtime.asyncPreempt")}
)

// isNamed matches a function of Go, also by its name in assembly.
func isNamed(name string) func(ccmap.Method) bool {
	return func(m ccmap.Method) bool { return strings.TrimSuffix(m.Name, ".abi0") == name }
}

// unseenBetween returns the things to leave out of each of two profiles of CPU time.
func unseenBetween(a, b *ccmap.Snapshot) (ofA, ofB []*unseen) {
	if a.Meta().Unit != ccmap.CPUTime || b.Meta().Unit != ccmap.CPUTime {
		return nil, nil
	}
	switch byA, byB := isSignalled(a), isSignalled(b); {
	case byA && !byB:
		return []*unseen{preemption}, []*unseen{kernelOfCallers, monitor, preemption}
	case byB && !byA:
		return []*unseen{kernelOfCallers, monitor, preemption}, []*unseen{preemption}
	case isOfUserMode(a) && !isOfUserMode(b) && !byB:
		return nil, []*unseen{kernelTime}
	case isOfUserMode(b) && !isOfUserMode(a) && !byA:
		return []*unseen{kernelTime}, nil
	}
	return nil, nil
}

// isSignalled reports whether a profile is one of runtime/pprof, which signals of timers took: it is of a Go program,
// has an interval and no engine but the one that takes such profiles over HTTP, and knows neither calls nor the kernel.
func isSignalled(s *ccmap.Snapshot) bool {
	meta := s.Meta()
	if meta.Engine != "" && meta.Engine != "pprofhttp" || len(meta.Interval) == 0 || s.Total().Activations > 0 {
		return false
	}
	isGo := false
	for id := range ccmap.MethodID(s.Names().Len()) {
		m := s.Names().At(id)
		isGo = isGo || strings.HasPrefix(m.Name, "runtime.")
	}
	return isGo && !hasKernel(s)
}

// isOfUserMode reports whether the source of a profile was not permitted to sample the kernel.
func isOfUserMode(s *ccmap.Snapshot) bool {
	return !hasKernel(s) && slices.ContainsFunc(s.Meta().Comments, func(c string) bool { return strings.HasPrefix(c, ccmap.CommentNoKernel) })
}

// hasKernel reports whether a profile has time in the kernel.
func hasKernel(s *ccmap.Snapshot) bool {
	for n := range s.Nodes() {
		if n.Method != ccmap.NoMethod && s.Names().At(n.Method).IsKernel() {
			return true
		}
	}
	return false
}

// seenByBoth returns two profiles without the things that only one of them can have, and lists these things. Pruned
// profiles stay as they are: pruned nodes have no stacks to change.
func seenByBoth(a, b *ccmap.Snapshot, w Weight) (seenA, seenB *ccmap.Snapshot, left []LeftOut) {
	if a.Pruned() || b.Pruned() {
		return a, b, nil
	}
	ofA, ofB := unseenBetween(a, b)
	seenA, sharesA := without(a, ofA, w)
	seenB, sharesB := without(b, ofB, w)
	for _, u := range []*unseen{kernelOfCallers, kernelTime, monitor, preemption} {
		if l := (LeftOut{u.what, u.why, u.callers, sharesA[u], sharesB[u]}); l.ShareA > 0 || l.ShareB > 0 {
			left = append(left, l)
		}
	}
	return seenA, seenB, left
}

// without returns a profile without things, and the percentage of its weight that each of them had. It returns the same
// profile if that has none of them.
func without(s *ccmap.Snapshot, things []*unseen, w Weight) (*ccmap.Snapshot, map[*unseen]float64) {
	of := unseenNodes(s, things)
	shares := make(map[*unseen]float64)
	for n := range s.Nodes() {
		if u := of[n.ID]; u != nil && w.of(n.Self) > 0 {
			shares[u] += 100 * float64(w.of(n.Self)) / float64(w.of(s.Total()))
		}
	}
	if len(shares) == 0 {
		return s, nil
	}
	return rebuilt(s, of), shares
}

// unseenNodes returns, by node, the thing that the node's own counts are part of; nil: none.
func unseenNodes(s *ccmap.Snapshot, things []*unseen) []*unseen {
	of := make([]*unseen, s.Len())
	for n := range s.Nodes() {
		switch above := of[n.Parent]; {
		case n.ID == 0:
		case above != nil && (!above.self || n.IsPosition()):
			of[n.ID] = above
		case !n.IsPosition():
			m := s.Names().At(n.Method)
			if i := slices.IndexFunc(things, func(u *unseen) bool { return u.is(m) }); i >= 0 {
				of[n.ID] = things[i]
			}
		}
	}
	return of
}

// rebuilt returns a profile without things: their counts go to their callers, or are dropped.
func rebuilt(s *ccmap.Snapshot, of []*unseen) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: s.Names()})
	*m.Meta() = s.Meta()
	m.SetExact(s.ActivationsExact())
	to := make([]ccmap.NodeID, s.Len())     // by node: its own
	counts := make([]ccmap.NodeID, s.Len()) // by node: where its counts go; the root: nowhere
	for n := range s.Nodes() {
		switch u := of[n.ID]; {
		case n.ID == 0:
			continue
		case u == nil:
			to[n.ID] = m.Child(to[n.Parent], n.Offset, n.Method)
			counts[n.ID] = to[n.ID]
		case u.callers:
			counts[n.ID] = counts[n.Parent]
		}
		if u := of[n.ID]; u != nil && u.self && !n.IsPosition() {
			to[n.ID] = m.Child(to[n.Parent], n.Offset, n.Method)
		}
		if counts[n.ID] != 0 {
			m.Add(counts[n.ID], n.Self)
		}
	}
	return m.Snapshot()
}
