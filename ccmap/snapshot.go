package ccmap

import (
	"iter"
	"sync"

	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// Snapshot is a map as it was at one moment.
//
// Any goroutine may use it, and it never changes. It shares the structure of the
// trie, which only grows, with the map and with other snapshots, and the chunks
// of counters until the writer writes to them ([columns]). Once the map is pruned
// they share nothing any more. A snapshot computes everything else that views need
// when it is first asked for, once.
type Snapshot struct {
	nodes
	columns columns
	recent  recent
	evicted evicted
	points  []Point
	names   *Names
	meta    Meta
	total   Counters
	inexact bool
	moments iter.Seq[Moment]

	subtrees struct {
		once sync.Once
		subtrees
	}
	links struct {
		once sync.Once
		tree.Links
	}
	removed struct {
		once sync.Once
		removed
	}
	window struct {
		once sync.Once
		*Snapshot
	}
	unlabelled struct {
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
	methods struct {
		once sync.Once
		sums []Counters
	}
	blind struct {
		once sync.Once
		Blind
	}
}

// Snapshot returns the map as it is. The writer calls it, and may go on while
// others read the result.
func (m *Map) Snapshot() *Snapshot {
	m.countDue()
	meta := m.meta.clone()
	meta.Window = m.recent.window
	return &Snapshot{
		nodes:   m.nodes,
		columns: m.columns.freeze(),
		recent:  m.recent.freeze(),
		evicted: m.evicted.freeze(),
		points:  m.points.all(),
		names:   m.names,
		meta:    meta,
		total:   m.total,
		inexact: m.inexact,
		moments: m.moments,
	}
}

// Names returns the table that the snapshot's methods are ids of. It may have
// grown since.
func (s *Snapshot) Names() *Names { return s.names }

// Meta returns the map's description. The caller must not change the slices in it.
func (s *Snapshot) Meta() Meta { return s.meta }

// Total returns the sum over all nodes: all samples, their time, and all
// activations.
func (s *Snapshot) Total() Counters { return s.total }

// ActivationsExact returns [Map.ActivationsExact] at the moment of the snapshot.
func (s *Snapshot) ActivationsExact() bool { return !s.inexact }

// Len returns the number of nodes, the root among them.
func (s *Snapshot) Len() int { return int(s.nodes.len) }

// Nodes returns all nodes by their ID: the root first, parents before children.
func (s *Snapshot) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		end := NodeID(s.nodes.len)
		for id := NodeID(0); id < end; {
			some, cells := s.nodes.from(id, end), s.columns.from(id, end)
			for i := range some {
				n := &some[i]
				if !yield(Node{ID: id, Parent: n.parent, Offset: n.offset, Method: n.method, Self: s.columns.counters(id, &cells[i])}) {
					return
				}
				id++
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
// activations of the node alone.
func (s *Snapshot) Inclusive(id NodeID) Counters {
	in := s.sums().of(id)
	return in.of(s.columns.at(id))
}

// sums returns the inclusive samples and times.
func (s *Snapshot) sums() *subtrees {
	s.subtrees.once.Do(func() { s.subtrees.build(&s.nodes, &s.columns) })
	return &s.subtrees.subtrees
}

// children returns the links from every node to its children, positions among them.
func (s *Snapshot) children() *tree.Links {
	s.links.once.Do(func() {
		s.links.Links = tree.NewLinks(s.Len())
		for n := NodeID(s.nodes.len - 1); n > 0; n-- {
			s.links.Add(uint32(s.at(n).parent), uint32(n))
		}
	})
	return &s.links.Links
}

// outermost returns the nodes that have no node of their method above them.
func (s *Snapshot) outermost() iter.Seq[NodeID] {
	return func(yield func(NodeID) bool) {
		holder := make([]NodeID, s.names.Len()) // by method: its outermost node on the current path
		for v, entered := range s.children().Walk() {
			n := NodeID(v)
			m := s.at(n).method
			switch {
			case m == NoMethod:
			case !entered && holder[m] == n:
				holder[m] = 0
			case entered && holder[m] == 0:
				holder[m] = n
				if !yield(n) {
					return
				}
			}
		}
	}
}
