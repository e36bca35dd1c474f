package ccmap

import (
	"math/bits"
	"slices"
)

// inclusive has the samples and time at and below every node.
//
// Most nodes count nothing themselves and have one child, the node after them,
// whose sum is theirs as well. So the nodes fall into runs, each up to the next
// node where the sum changes; in the benchmarks a node in twenty ends one. It is
// the trie with its paths compressed. Only runs have a sum: a table of the sums
// of all nodes took three times as long to make, and 16 bytes a node.
type inclusive struct {
	ends   []uint64 // bit n%64 of word n/64: node n ends a run
	before []uint32 // by word of ends: how many runs end before it
	sums   []span   // by run
}

// span is what the samples below and at a node come to.
type span struct{ samples, time int64 }

// of returns the sum of a node.
func (x *inclusive) of(n NodeID) span { return x.sums[x.run(n)] }

// run returns the run that a node is in.
func (x *inclusive) run(n NodeID) uint32 {
	w, inside := n/64, uint64(1)<<(n%64)-1
	return x.before[w] + uint32(bits.OnesCount64(x.ends[w]&inside))
}

// build finds the runs and adds up their sums.
func (x *inclusive) build(t *nodes, c *columns) {
	changes := make([]change, 0, t.len/16)
	for i := range t.chunks {
		changes = findChanges(changes, NodeID(i*chunkLen), t, c)
	}
	x.endRuns(changes, c.wide, NodeID(t.len-1))
	for n, w := range c.wide {
		x.sums[x.run(n)].add(span{w.Samples, w.Time})
	}
	x.sumUp(changes)
}

// change is a node that counts something itself or does not follow its parent.
type change struct {
	node, parent NodeID
	self         span
}

// isHead reports whether the node does not follow its parent. The root does not.
func (k change) isHead() bool { return k.parent+1 != k.node }

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

// endRuns ends a run at every node that counts something itself, before and
// above every head, and at the last node.
func (x *inclusive) endRuns(changes []change, wide map[NodeID]Counters, last NodeID) {
	x.ends = make([]uint64, last/64+1)
	for _, k := range changes[1:] {
		if k.self != (span{}) {
			x.end(k.node)
		}
		if k.isHead() {
			x.end(k.node - 1)
			x.end(k.parent)
		}
	}
	for n := range wide {
		x.end(n)
	}
	x.end(last)
	x.before = make([]uint32, len(x.ends))
	runs := 0
	for w, ends := range x.ends {
		x.before[w] = uint32(runs)
		runs += bits.OnesCount64(ends)
	}
	x.sums = make([]span, runs)
}

// end says that node n ends a run.
func (x *inclusive) end(n NodeID) { x.ends[n/64] |= 1 << (n % 64) }

// sumUp adds every run to the one above it, from the last to the first: parents
// stand before their children. Nothing overflows, as no sum is over the map's
// total.
func (x *inclusive) sumUp(changes []change) {
	run := uint32(len(x.sums) - 1)
	for _, k := range slices.Backward(changes[1:]) {
		for first := x.run(k.node); run > first; run-- {
			x.sums[run-1].add(x.sums[run])
		}
		x.sums[run].add(k.self)
		if k.isHead() {
			x.sums[x.run(k.parent)].add(x.sums[run])
			run--
		}
	}
	for ; run > 0; run-- {
		x.sums[run-1].add(x.sums[run])
	}
}

func (s *span) add(o span) {
	s.samples += o.samples
	s.time += o.time
}
