package ccmap

import (
	"errors"
	"math"
	"slices"
)

// ErrTooLarge is the error of a merge whose result may have 2³² nodes or more.
var ErrTooLarge = errors.New("too many context nodes")

// Merge adds all counts of from. Methods are unified by Name and Signature,
// points that are the same add up, Meta is merged, and activations remain exact
// only if both are. Recent counters add up if both have the same window, as if
// both were of now; an empty map takes the window of the other; otherwise the
// result has none. It prunes as [Map.Fold] does.
//
// Apart from pruning and rounding, merging is associative. It is commutative except
// for the order of ids and the fields of Meta that keep the first value. Its cost is
// linear in the nodes and points of from, which may be a snapshot of m itself. On an
// error m is as before: the error wraps [ErrUnlike] if the two have weights of
// different units, or is [ErrTooLarge].
func (m *Map) Merge(from *Snapshot) error {
	if uint64(m.Len())+uint64(from.Len()) > math.MaxUint32 {
		return ErrTooLarge
	}
	if !from.isEmpty() {
		if err := m.SetUnit(from.meta.Unit); err != nil {
			return err
		}
	}
	m.mergeWindow(from)
	m.moments = nil
	methods := m.names.adopt(from.names)
	m.addNodes(from, methods)
	m.addEvicted(from, methods)
	m.addPoints(from, methods)
	if m.Bytes() > m.outgrown {
		m.keepBudget()
	}
	m.inexact = m.inexact || from.inexact
	m.meta.merge(from.meta, &m.covered)
	return nil
}

// mergeWindow gives the map the window of the merged map.
func (m *Map) mergeWindow(from *Snapshot) {
	ours, theirs := m.recent.window, from.recent.window
	switch {
	case ours == theirs || from.isEmpty():
	case m.isEmpty():
		m.SetWindow(theirs)
	default:
		m.SetWindow(0)
	}
}

func (m *Map) isEmpty() bool      { return m.Len() == 1 && len(m.evicted.Keys) == 0 }
func (s *Snapshot) isEmpty() bool { return s.Len() == 1 && len(s.evicted.Keys) == 0 }

// addNodes adds the nodes of from with their counts.
func (m *Map) addNodes(from *Snapshot, methods methodIDs) {
	g := graft{m: m, from: from, methods: methods, moved: make([]NodeID, from.Len())}
	pruned := NodeID(0)
	for n := NodeID(1); uint32(n) < from.nodes.len; n++ {
		g.addNode(n)
		// A prune costs as much as the map has nodes, so it must not happen more often:
		// a deep stack may need more than any budget.
		if m.Bytes() > m.outgrown && int(n-pruned) > m.Len()/8 {
			m.keepBudget()
			clear(g.moved)
			pruned = n
		}
	}
}

// graft is the merge of a trie into another.
type graft struct {
	m       *Map
	from    *Snapshot
	methods methodIDs
	moved   []NodeID // nodes of m, by nodes of from; 0: not known, or the root
	path    []NodeID // scratch
}

// addNode adds the counts of a node.
func (g *graft) addNode(n NodeID) {
	to := g.place(n)
	g.m.Add(to, g.from.columns.at(n))
	if g.from.recent.on() {
		g.m.addRecent(to, g.from.recent.at(n))
	}
}

// place returns the node of m that stands for a node of from. It finds or adds it,
// and the nodes above it that are not known.
func (g *graft) place(n NodeID) NodeID {
	g.path = g.path[:0]
	for ; n != 0 && g.moved[n] == 0; n = g.from.at(n).parent {
		g.path = append(g.path, n)
	}
	to := g.moved[n]
	for _, n := range slices.Backward(g.path) {
		what := g.from.at(n)
		to = g.m.Child(to, what.offset, g.methods.of(what.method))
		g.moved[n] = to
	}
	return to
}

// addEvicted adds the counts of removed nodes of from.
func (m *Map) addEvicted(from *Snapshot, methods methodIDs) {
	for e := range from.PrunedEdges() {
		e.Caller, e.Callee = methods.of(e.Caller), methods.of(e.Callee)
		m.AddPruned(e)
	}
	for p := range from.PrunedMethods() {
		p.Method = methods.of(p.Method)
		m.AddPrunedMethod(p)
	}
}
