package ccmap

import "github.com/ccmapd/ccmapd/ccmap/internal/tree"

// subtrees has the samples and time at and below every node.
//
// Most nodes count nothing themselves and have one child, the node after them,
// which has the same sum. So the sums are kept by compressed path: a path ends where
// the sum changes, in the benchmarks at one node in twenty. A table of the sums of all
// nodes took three times as long to make, and 16 bytes a node.
type subtrees struct {
	tree.Paths
	sums []span // by path
}

// of returns the sum of a node.
func (x *subtrees) of(n NodeID) span { return x.sums[x.Of(uint32(n))] }

// build finds the paths and adds up their sums. Nothing overflows, as no sum exceeds
// the map's total.
func (x *subtrees) build(t *nodes, c *columns) {
	changes := make([]change, 0, t.len/16)
	for i := range t.chunks {
		changes = findChanges(changes, NodeID(i*chunkLen), t, c)
	}
	x.endPaths(changes, c.wide, int(t.len))
	x.addSelves(changes)
	for n, w := range c.wide {
		x.sums[x.Of(uint32(n))].add(span{w.Samples, w.Time})
	}
	tree.SumUp(x.Above, x.sums, (*span).add)
}

// change is a node that counts something itself or does not follow its parent.
type change struct {
	node, parent NodeID
	self         span
}

// isBranch reports whether the node does not follow its parent. The root does not.
func (k change) isBranch() bool { return k.parent+1 != k.node }

// findChanges appends the changes in the chunk that begins with a node.
func findChanges(found []change, first NodeID, t *nodes, c *columns) []change {
	all := t.chunks[first>>chunkBits][:min(chunkLen, t.len-uint32(first))]
	cells := c.chunks[first>>chunkBits].cells[:len(all)]
	for i := range all {
		n, parent, self := first+NodeID(i), all[i].parent, &cells[i]
		if self.time|int64(self.samples) != 0 || parent+1 != n {
			found = append(found, change{n, parent, span{int64(self.samples), self.time}})
		}
	}
	return found
}

// endPaths ends a path at every node that counts something itself, before and above
// every branch, and at the last node.
func (x *subtrees) endPaths(changes []change, wide map[NodeID]Counters, nodes int) {
	x.Paths = tree.NewPaths(nodes)
	for _, k := range changes[1:] {
		if k.self != (span{}) {
			x.End(uint32(k.node))
		}
		if k.isBranch() {
			x.Branch(uint32(k.node), uint32(k.parent))
		}
	}
	for n := range wide {
		x.End(uint32(n))
	}
	x.sums = make([]span, x.Number())
}

// addSelves links the paths, and adds the counts of their nodes themselves.
func (x *subtrees) addSelves(changes []change) {
	for _, k := range changes[1:] {
		p := x.Of(uint32(k.node))
		x.sums[p].add(k.self)
		if k.isBranch() {
			x.Above[p] = x.Of(uint32(k.parent))
		}
	}
}
