package ccmap

import (
	"iter"
	"sync"
)

// Snapshot is a map as it was at one moment.
//
// Any goroutine may use it, and it never changes. It shares the structure of the
// trie, which only grows, with the map and with other snapshots, and the chunks
// of counters until the writer needs them ([columns]). What views need beyond
// that is computed when it is first asked for, once.
type Snapshot struct {
	nodes
	columns columns
	names   *Names
	meta    Meta
	total   Counters
	inexact bool

	inclusive struct {
		once sync.Once
		of   []span
	}
	kin struct {
		once        sync.Once
		first, next []NodeID // child and sibling; 0: none
	}
	index struct {
		once sync.Once
		index
	}
}

// Snapshot returns the map as it is. The writer calls it, and may go on while
// others read the result.
func (m *Map) Snapshot() *Snapshot {
	return &Snapshot{
		nodes:   m.nodes,
		columns: m.columns.freeze(),
		names:   m.names,
		meta:    m.meta.clone(),
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

// span is what the samples below and at a node come to.
type span struct{ samples, time int64 }

// Inclusive returns the samples and time of a node and all below it, and the
// activations of the node itself, which it alone has.
func (s *Snapshot) Inclusive(id NodeID) Counters {
	in := s.spans()[id]
	return Counters{in.samples, in.time, s.columns.at(id).Activations}
}

func (s *Snapshot) spans() []span {
	s.inclusive.once.Do(func() { s.inclusive.of = s.sumBelow() })
	return s.inclusive.of
}

// sumBelow adds every node to its parent, from the last to the first: parents
// stand before their children, and most of them right before, so that their sum
// goes from hand to hand. Nothing overflows, as no sum is over the map's total.
func (s *Snapshot) sumBelow() []span {
	sums := make([]span, s.nodes.len)
	for n, w := range s.columns.wide {
		sums[n] = span{w.Samples, w.Time}
	}
	var samples, time int64 // of the node after n, if n is its parent
	for n := NodeID(s.nodes.len - 1); n > 0; n-- {
		self, sum := s.columns.cell(n), &sums[n]
		samples += sum.samples + int64(self.samples)
		time += sum.time + self.time
		*sum = span{samples, time}
		if parent := s.at(n).parent; parent != n-1 {
			sums[parent].samples += samples
			sums[parent].time += time
			samples, time = 0, 0
		}
	}
	sums[0].samples += samples
	sums[0].time += time
	return sums
}
