package ccmap

import "math/bits"

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
	above  []uint32 // by run: the run above it, whose last node is its first node's parent
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

// lastNodes returns the last node of every run.
func (x *inclusive) lastNodes() []NodeID {
	last := make([]NodeID, 0, len(x.sums))
	for w, ends := range x.ends {
		for ; ends != 0; ends &= ends - 1 {
			last = append(last, NodeID(w*64+bits.TrailingZeros64(ends)))
		}
	}
	return last
}

// build finds the runs and adds up their sums.
func (x *inclusive) build(t *nodes, c *columns) {
	changes := make([]change, 0, t.len/16)
	for i := range t.chunks {
		changes = findChanges(changes, NodeID(i*chunkLen), t, c)
	}
	x.endRuns(changes, c.wide, NodeID(t.len-1))
	x.linkRuns(changes)
	for n, w := range c.wide {
		x.sums[x.run(n)].add(span{w.Samples, w.Time})
	}
	sumUp(x.above, x.sums, (*span).add)
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
	x.above, x.sums = make([]uint32, runs), make([]span, runs)
}

// end says that node n ends a run.
func (x *inclusive) end(n NodeID) { x.ends[n/64] |= 1 << (n % 64) }

// linkRuns finds the run above each, and adds what its nodes count themselves.
func (x *inclusive) linkRuns(changes []change) {
	for r := range x.above[1:] {
		x.above[r+1] = uint32(r)
	}
	for _, k := range changes[1:] {
		r := x.run(k.node)
		x.sums[r].add(k.self)
		if k.isHead() {
			x.above[r] = x.run(k.parent)
		}
	}
}

// sumUp adds the sum of every run to that of the run above it, from the last to
// the first: parents stand before their children. Nothing overflows, as no sum is
// over the map's total.
func sumUp[S any](above []uint32, sums []S, add func(*S, S)) {
	for r := len(sums) - 1; r > 0; r-- {
		add(&sums[above[r]], sums[r])
	}
}

func (s *span) add(o span) {
	s.samples += o.samples
	s.time += o.time
}
