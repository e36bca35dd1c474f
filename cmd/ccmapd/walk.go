package main

import (
	"iter"

	"github.com/ccmapd/ccmapd/ccmap"
)

// callers returns the frames above a node, innermost first, each at its call.
func callers(s *ccmap.Snapshot, n ccmap.Node) iter.Seq[ccmap.Frame] {
	return func(yield func(ccmap.Frame) bool) {
		for n.Parent != 0 {
			parent := s.Node(n.Parent)
			if !yield(ccmap.Frame{Method: parent.Method, Offset: n.Offset}) {
				return
			}
			n = parent
		}
	}
}

// outermost returns, of the nodes that are wanted, those with no such node above
// them. No sample is below two of them.
func outermost(s *ccmap.Snapshot, wanted func(ccmap.Node) bool) iter.Seq[ccmap.Node] {
	return func(yield func(ccmap.Node) bool) {
		below := make([]bool, s.Len()) // at or below a wanted node; parents come first
		for n := range s.Nodes() {
			below[n.ID] = below[n.Parent]
			if below[n.ID] || !wanted(n) {
				continue
			}
			below[n.ID] = true
			if !yield(n) {
				return
			}
		}
	}
}
