// Package tree holds the parts that every tree of contexts needs: links to walk it
// ([Links]), and its compressed paths ([Paths]).
//
// Nodes are numbers from 0, which is the root. A parent's number is smaller than its
// children's.
package tree

import (
	"iter"
	"math/bits"
)

// Links link every node to its first child and its next sibling. Build them by Add,
// in one goroutine; after that any goroutine may read them.
type Links struct {
	first, next []uint32 // by node; 0: none
}

// NewLinks returns links without children, with room for a number of nodes.
func NewLinks(nodes int) Links {
	return Links{make([]uint32, nodes), make([]uint32, nodes)}
}

// Add puts a child before the other children of its parent. Add nodes from the last to
// the first, and children have the order of their numbers.
func (l *Links) Add(parent, child uint32) {
	l.next[child], l.first[parent] = l.first[parent], child
}

// Leaf reports whether a node has no children.
func (l *Links) Leaf(n uint32) bool { return l.first[n] == 0 }

// Children returns the children of a node.
func (l *Links) Children(n uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for c := l.first[n]; c != 0; c = l.next[c] {
			if !yield(c) {
				return
			}
		}
	}
}

// Walk returns every node but the root twice, depth first: with true before the nodes
// below it, and with false after them.
func (l *Links) Walk() iter.Seq2[uint32, bool] {
	return func(yield func(uint32, bool) bool) {
		var open []uint32 // the nodes above n
		for n := l.first[0]; n != 0; {
			if !yield(n, true) {
				return
			}
			if c := l.first[n]; c != 0 {
				open = append(open, n)
				n = c
				continue
			}
			for {
				if !yield(n, false) {
					return
				}
				if n = l.next[n]; n != 0 || len(open) == 0 {
					break
				}
				n, open = open[len(open)-1], open[:len(open)-1]
			}
		}
	}
}

// Paths are the compressed paths of a tree: runs of nodes, each the parent of the node
// after it. A path ends where a value of its nodes may change: at every node marked by
// End, and at the branches marked by Branch. So all nodes of a path have the same
// value, and a table by path is as good as one by node, and smaller.
//
// Mark all ends, then call Number, then call Hang for every branch. After that any
// goroutine may read them.
type Paths struct {
	// Above maps each path to the path above it: that one ends at the parent of its
	// first node. Path 0 begins at the root, and is above itself.
	Above []uint32

	ends   []uint64 // bit n%64 of word n/64: node n is the last of a path
	before []uint32 // by word of ends: how many paths end before it
}

// NewPaths returns paths of a number of nodes, without ends but the last node.
func NewPaths(nodes int) Paths {
	p := Paths{ends: make([]uint64, (nodes+63)/64)}
	p.End(uint32(nodes - 1))
	return p
}

// End marks node n as the last of its path.
func (p *Paths) End(n uint32) { p.ends[n/64] |= 1 << (n % 64) }

// IsEnd reports whether n is the last node of its path.
func (p *Paths) IsEnd(n uint32) bool { return p.ends[n/64]&(1<<(n%64)) != 0 }

// Branch marks a node that does not follow its parent: a path ends before the node,
// and one at the parent.
func (p *Paths) Branch(n, parent uint32) {
	p.End(n - 1)
	p.End(parent)
}

// Number numbers the paths from 0, in the order of their nodes, and returns how many
// there are.
func (p *Paths) Number() int {
	p.before = make([]uint32, len(p.ends))
	paths := 0
	for w, ends := range p.ends {
		p.before[w] = uint32(paths)
		paths += bits.OnesCount64(ends)
	}
	p.Above = make([]uint32, paths)
	for i := range p.Above[1:] {
		p.Above[i+1] = uint32(i)
	}
	return paths
}

// Hang sets the path above the path that begins with a branch.
func (p *Paths) Hang(n, parent uint32) { p.Above[p.Of(n)] = p.Of(parent) }

// Of returns the number of the path that a node is in.
func (p *Paths) Of(n uint32) uint32 {
	w, inside := n/64, uint64(1)<<(n%64)-1
	return p.before[w] + uint32(bits.OnesCount64(p.ends[w]&inside))
}

// Ends returns the last node of every path, in their order.
func (p *Paths) Ends() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for w, ends := range p.ends {
			for ; ends != 0; ends &= ends - 1 {
				if !yield(uint32(w*64 + bits.TrailingZeros64(ends))) {
					return
				}
			}
		}
	}
}

// SumUp adds the sum of every path to the sum of the path above it, from the last to
// the first, so that each becomes the sum of all nodes at and below the path.
func SumUp[S any](above []uint32, sums []S, add func(*S, S)) {
	for p := len(sums) - 1; p > 0; p-- {
		add(&sums[above[p]], sums[p])
	}
}
