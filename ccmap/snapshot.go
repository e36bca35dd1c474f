package ccmap

import (
	"iter"
	"sync"
)

// Snapshot is a map as it was at one moment.
//
// Any goroutine may use it, and it never changes. It shares the structure of the
// trie, which only grows, with the map and with other snapshots, and the chunks
// of counters until the writer needs them ([columns]). Once the map is pruned
// they share nothing any more. What views need beyond that is computed when it is
// first asked for, once.
type Snapshot struct {
	nodes
	columns columns
	recent  recent
	bases   bases
	points  []Point
	names   *Names
	meta    Meta
	total   Counters
	inexact bool

	inclusive struct {
		once sync.Once
		inclusive
	}
	kin struct {
		once        sync.Once
		first, next []NodeID // child and sibling; 0: none
	}
	removed struct {
		once sync.Once
		removed
	}
	window struct {
		once sync.Once
		*Snapshot
	}
	index struct {
		once sync.Once
		index
	}
	cumulative struct {
		once sync.Once
		cumulative
	}
}

// Snapshot returns the map as it is. The writer calls it, and may go on while
// others read the result.
func (m *Map) Snapshot() *Snapshot {
	meta := m.meta.clone()
	meta.Window = m.recent.window
	return &Snapshot{
		nodes:   m.nodes,
		columns: m.columns.freeze(),
		recent:  m.recent.freeze(),
		bases:   m.bases.freeze(),
		points:  m.points.settle(),
		names:   m.names,
		meta:    meta,
		total:   m.total,
		inexact: m.inexact,
	}
}

// Names returns the table that the snapshot's methods are ids of. It may have
// grown since.
func (s *Snapshot) Names() *Names { return s.names }

// Meta returns the map's description. The caller must not change what it
// refers to.
func (s *Snapshot) Meta() Meta { return s.meta }

// Total returns the sum over all nodes: all samples, their time, and all
// activations.
func (s *Snapshot) Total() Counters { return s.total }

// ActivationsExact is that of the map, see [Map.ActivationsExact].
func (s *Snapshot) ActivationsExact() bool { return !s.inexact }

// Len returns the number of nodes, the root among them.
func (s *Snapshot) Len() int { return int(s.nodes.len) }

// Nodes returns all nodes by their ID: the root first, parents before children.
func (s *Snapshot) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for id := range NodeID(s.nodes.len) {
			if !yield(s.Node(id)) {
				return
			}
		}
	}
}

// Node returns the node with the given ID, which must exist.
func (s *Snapshot) Node(id NodeID) Node {
	n := s.at(id)
	return Node{ID: id, Parent: n.parent, Offset: n.offset, Method: n.method, Self: s.columns.at(id)}
}

// Inclusive returns the samples and time of a node and all below it, and the
// activations of the node itself, which it alone has.
func (s *Snapshot) Inclusive(id NodeID) Counters {
	in := s.sums().of(id)
	return Counters{in.samples, in.time, s.columns.at(id).Activations}
}

// sums returns the inclusive samples and times.
func (s *Snapshot) sums() *inclusive {
	s.inclusive.once.Do(func() { s.inclusive.build(&s.nodes, &s.columns) })
	return &s.inclusive.inclusive
}
