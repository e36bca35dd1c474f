package main

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	topContexts = 100
	tau         = 0.1 // of the hottest context's time, see design/accuracy.md
)

// coverage says what of a window's hottest contexts, by their own recent time, a
// pruned map still has.
type coverage struct {
	hot   float64 // share of the contexts with at least tau of the hottest's time that it has
	top   float64 // share of the topContexts hottest that it has
	right float64 // share of these whose time is within 10 % of the truth
}

// covers compares a window with that of a map which was never pruned. Both have
// the same names.
func covers(window, truth *ccmap.Snapshot) coverage {
	hot := hottest(truth, topContexts)
	found := timesOf(window, truth, hot)
	var c coverage
	overTau := 0
	for i, h := range hot {
		has := found[i] > 0
		if float64(h.time) >= tau*float64(hot[0].time) {
			overTau++
			c.hot += one(has)
		}
		c.top += one(has)
		c.right += one(10*found[i] >= 9*h.time && 10*found[i] <= 11*h.time)
	}
	c.hot /= float64(overTau)
	c.top /= float64(len(hot))
	c.right /= float64(len(hot))
	return c
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// context is a method's node and the time of its own, that of its positions with
// it.
type context struct {
	node ccmap.NodeID
	time int64
}

// hottest returns the contexts with the most time of their own, the hottest
// first.
func hottest(s *ccmap.Snapshot, n int) []context {
	var all []context
	for id, time := range ownTimes(s) {
		if time > 0 {
			all = append(all, context{ccmap.NodeID(id), time})
		}
	}
	slices.SortFunc(all, func(a, b context) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.node, b.node))
	})
	return all[:min(n, len(all))]
}

// ownTimes returns the time of each node, that of positions at their method.
func ownTimes(s *ccmap.Snapshot) []int64 {
	times := make([]int64, s.Len())
	for n := range s.Nodes() {
		at := n.ID
		if n.IsPosition() {
			at = n.Parent
		}
		times[at] += n.Self.Time
	}
	return times
}

// timesOf returns the times of the truth's contexts in another window, 0 where
// it has none. It follows the paths to them alone, in one pass over all nodes:
// parents come first.
func timesOf(window, truth *ccmap.Snapshot, contexts []context) []int64 {
	paths := pathsTo(truth, contexts)
	node := make(map[ccmap.NodeID]ccmap.NodeID, len(contexts)) // of the window, by the truth's
	same := make([]ccmap.NodeID, window.Len())                 // of the truth; 0: on no path
	for n := range window.Nodes() {
		if n.ID == 0 || n.Parent != 0 && same[n.Parent] == 0 {
			continue
		}
		if t, ok := paths[child{same[n.Parent], n.Offset, n.Method}]; ok {
			same[n.ID], node[t] = t, n.ID
		}
	}
	own := ownTimes(window)
	times := make([]int64, len(contexts))
	for i, c := range contexts {
		times[i] = own[node[c.node]] // the root has none
	}
	return times
}

// child is what a node is to its parent.
type child struct {
	parent ccmap.NodeID
	offset uint32
	method ccmap.MethodID
}

// pathsTo returns the nodes from the root to the contexts.
func pathsTo(s *ccmap.Snapshot, contexts []context) map[child]ccmap.NodeID {
	paths := make(map[child]ccmap.NodeID)
	for _, c := range contexts {
		for id := c.node; id != 0; {
			n := s.Node(id)
			paths[child{n.Parent, n.Offset, n.Method}] = id
			id = n.Parent
		}
	}
	return paths
}
