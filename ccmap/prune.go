package ccmap

import (
	"math"
	"unsafe"
)

// Prune removes the contexts that weigh least, until Bytes is at most toBytes or
// nothing is left to remove. What a context weighs is its recent time if there is
// a window, else its time, all below it included.
//
// Where a context was cut off, the samples and the time of all that was below it
// hang at one node [PrunedName], whose activations are 0. A position goes to the
// method that it is in. Totals of methods and edges stay exact ([PrunedEdge]);
// contexts become lower bounds ([Snapshot.Pruned]).
//
// Nodes get other ids. Snapshots keep theirs.
func (m *Map) Prune(toBytes int64) {
	const tries = 4 // what is removed makes the bases grow, which take room themselves
	aim := toBytes
	if len(m.bases.keys) == 0 {
		aim -= toBytes / 16 // for the bases, which nearly all come with the first prune
	}
	for range tries {
		if m.Bytes() <= toBytes || !m.prune(aim) {
			return
		}
		aim = toBytes
	}
}

// keepBudget prunes a map that has outgrown MaxBytes to half the room that there
// is for nodes, so that pruning costs little for every node that is added. If
// what cannot be pruned leaves no room, the map is given as much as makes the
// next prune worthwhile: totals are kept before the budget.
func (m *Map) keepBudget() {
	fixed := m.fixedBytes()
	low := fixed + max(m.maxBytes-fixed, 0)/2
	m.Prune(low)
	m.outgrown = max(m.maxBytes, m.Bytes()+max(m.maxBytes/8, 2*m.chunkBytes()))
	if m.Bytes() <= (low+m.maxBytes)/2 {
		m.outgrown = m.maxBytes
	}
}

// giveBack takes from the map what it was given beyond MaxBytes, if there is less
// now that cannot be pruned.
func (m *Map) giveBack(bytes int64) {
	if bytes > 0 {
		m.outgrown = max(m.maxBytes, m.outgrown-bytes)
	}
}

// fixedBytes returns what pruning does not make less.
func (m *Map) fixedBytes() int64 { return m.bases.bytes() + m.points.bytes + m.memos.bytes() }

// size changes when Bytes does by as much as matters, and costs less to ask for.
func (m *Map) size() int { return int(m.nodes.len) + m.memos.frames }

// setBudget sets the bound of Bytes; 0 or less: none.
func (m *Map) setBudget(bytes int64) {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	m.maxBytes, m.outgrown = bytes, bytes
	m.memos.bound(bytes)
}

// nodeBytes returns what a node takes, without the table.
func (m *Map) nodeBytes() int64 {
	size := unsafe.Sizeof(node{}) + unsafe.Sizeof(cell{})
	if m.recent.on() {
		size += unsafe.Sizeof(recentCell{})
	}
	return int64(size)
}

// chunkBytes returns what the map grows by.
func (m *Map) chunkBytes() int64 { return m.nodeBytes() * chunkLen }

// prune prunes once and reports whether that removed anything.
func (m *Map) prune(toBytes int64) bool {
	p := newPruning(m)
	p.choose(toBytes)
	return p.apply()
}

// apply removes what was not chosen to be kept.
func (p *pruning) apply() bool {
	if p.removed == 0 {
		return false
	}
	p.account()
	p.rewrite()
	p.m.meta.Pruned.Times++
	p.m.meta.Pruned.Nodes += p.removed
	return true
}

// pruning is one prune of a map. It works on the runs of its nodes
// ([inclusive]): all nodes of a run weigh the same. What is kept of a run is its
// first nodes, mostly all or none, and something only if all of the run above is.
type pruning struct {
	m *Map
	inclusive
	old struct { // the map as it was
		nodes
		columns columns
		recent  recent
	}
	lately  []weights  // by run, in the clock's octave; nil without a window
	last    []NodeID   // by run: its last node
	method  []MethodID // by run: of its first node
	keep    []uint32   // by run: how many of its nodes are kept
	fate    []fate     // by run: of the rest
	pruned  MethodID
	removed uint64 // nodes
	entries int    // of the table
}

// fate is what becomes of the nodes of a run that are not kept.
type fate uint8

const (
	kept     fate = iota // there are none
	absorbed             // a position goes to its parent
	hung                 // their parent is kept, and gets a [pruned] child for them
	lost                 // they are below a removed node, or there is nothing to count
)

// newPruning adds up what weighs how much.
func newPruning(m *Map) *pruning {
	p := &pruning{m: m, pruned: m.names.prunedID()}
	p.old.nodes, p.old.columns, p.old.recent = m.nodes, m.columns, m.recent
	p.build(&m.nodes, &m.columns)
	p.last = p.lastNodes()
	p.method = make([]MethodID, len(p.sums))
	for r := range p.method {
		p.method[r] = m.at(p.first(r)).method
	}
	if m.recent.on() {
		p.lately = make([]weights, len(p.sums))
		for r, n := range p.last {
			p.lately[r] = m.recent.inOctave(n)
		}
		sumUp(p.above, p.lately, (*weights).add)
	}
	p.keep, p.fate = make([]uint32, len(p.sums)), make([]fate, len(p.sums))
	return p
}

// first returns the first node of a run.
func (p *pruning) first(r int) NodeID {
	if r == 0 {
		return 0
	}
	return p.last[r-1] + 1
}

// size returns how many nodes a run has.
func (p *pruning) size(r int) uint32 { return uint32(p.last[r] + 1 - p.first(r)) }

// gone returns the first node of a run that is not kept.
func (p *pruning) gone(r int) NodeID { return p.first(r) + NodeID(p.keep[r]) }

func (p *pruning) whole(r int) bool { return p.keep[r] == p.size(r) }

// parent returns the run that has the parent of the first node removed of a run:
// as its last kept node.
func (p *pruning) parent(r int) int {
	if p.keep[r] > 0 {
		return r
	}
	return int(p.above[r])
}

// isHead reports whether the run does not follow the node it hangs at.
func (p *pruning) isHead(r int) bool { return r > 0 && int(p.above[r]) != r-1 }

// isPruned reports whether a run is one [pruned] node.
func (p *pruning) isPruned(r int) bool {
	return p.pruned != NoMethod && p.method[r] == p.pruned && r > 0
}
