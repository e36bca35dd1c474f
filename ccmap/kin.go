package ccmap

import "iter"

// children returns the children of a node by their ID, positions among them.
func (s *Snapshot) children(n NodeID) iter.Seq[NodeID] {
	s.kin.once.Do(s.findKin)
	return func(yield func(NodeID) bool) {
		for c := s.kin.first[n]; c != 0; c = s.kin.next[c] {
			if !yield(c) {
				return
			}
		}
	}
}

// findKin links every node to its first child and its next sibling.
func (s *Snapshot) findKin() {
	first := make([]NodeID, s.nodes.len)
	next := make([]NodeID, s.nodes.len)
	for n := NodeID(s.nodes.len - 1); n > 0; n-- {
		p := s.at(n).parent
		next[n], first[p] = first[p], n
	}
	s.kin.first, s.kin.next = first, next
}

// outermost returns the nodes that have no node of their method above them.
func (s *Snapshot) outermost() iter.Seq[NodeID] {
	return func(yield func(NodeID) bool) {
		holder := make([]NodeID, s.names.Len()) // by method: its outermost node on the path at hand
		for n, entered := range s.walk() {
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

// walk returns every node but the root twice, depth first: entered, and when
// all below it have been returned, left.
func (s *Snapshot) walk() iter.Seq2[NodeID, bool] {
	s.kin.once.Do(s.findKin)
	return func(yield func(NodeID, bool) bool) {
		n := s.kin.first[0]
		for n != 0 {
			if !yield(n, true) {
				return
			}
			if c := s.kin.first[n]; c != 0 {
				n = c
				continue
			}
			for {
				if !yield(n, false) {
					return
				}
				if sibling := s.kin.next[n]; sibling != 0 {
					n = sibling
					break
				}
				if n = s.at(n).parent; n == 0 {
					return
				}
			}
		}
	}
}
