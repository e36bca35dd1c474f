package ccmap

import (
	"math"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// Prune removes the contexts of least weight, until Bytes is at most toBytes or
// nothing is left to remove. The weight of a context is its recent time if there is
// a window, else its time; both include everything below it.
//
// Where a context was cut off, the samples and the time of all that was below it
// hang at one node [PrunedName], whose activations are 0. A position goes to the
// method that it is in. Totals of methods and edges stay exact ([PrunedEdge]);
// contexts become lower bounds ([Snapshot.Pruned]).
//
// Nodes get other ids. Snapshots keep theirs.
func (m *Map) Prune(toBytes int64) {
	const tries = 4 // removed nodes make the evicted counters grow, which take room too
	aim := toBytes
	if len(m.evicted.Keys) == 0 {
		aim -= toBytes / 16 // for the evicted counters, which nearly all come with the first prune
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
// the rest, which cannot be pruned, leaves no room, then the map gets enough to make
// the next prune worthwhile: keeping totals comes before the budget.
//
// Known stacks go first. They can be walked again, and may be all that is too much.
func (m *Map) keepBudget() {
	if m.stacks.forgetAll(); m.Bytes() <= m.outgrown {
		m.measured = m.size()
		return
	}
	fixed := m.fixedBytes()
	low := fixed + max(m.maxBytes-fixed, 0)/2
	m.Prune(low)
	m.outgrown = max(m.maxBytes, m.Bytes()+max(m.maxBytes/8, 2*m.chunkBytes()))
	if m.Bytes() <= (low+m.maxBytes)/2 {
		m.outgrown = m.maxBytes
	}
}

// giveBack takes back room that the map got beyond MaxBytes, after memory that cannot
// be pruned has shrunk by a number of bytes.
func (m *Map) giveBack(bytes int64) {
	if bytes > 0 {
		m.outgrown = max(m.maxBytes, m.outgrown-bytes)
	}
}

// fixedBytes returns the memory that pruning does not reduce.
func (m *Map) fixedBytes() int64 {
	return m.evicted.bytes() + m.points.bytes + m.last.bytes() + m.stacks.keyBytes() + m.ids.methodBytes()
}

// size changes when Bytes changes by an amount that matters, and is cheaper.
func (m *Map) size() int {
	return int(m.nodes.len) + m.last.frames + len(m.stacks.slots) + int(m.stacks.keyBytes())
}

// setBudget sets the bound of Bytes; 0 or less: none.
func (m *Map) setBudget(bytes int64) {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	m.maxBytes, m.outgrown = bytes, bytes
	m.last.bound(bytes)
}

// SetMaxBytes changes [Options].MaxBytes. It prunes a map that exceeds the new bound.
func (m *Map) SetMaxBytes(bytes int64) {
	m.setBudget(bytes)
	if m.Bytes() > m.outgrown {
		m.keepBudget()
	}
}

// nodeBytes returns the memory of a node, without the table.
func (m *Map) nodeBytes() int64 {
	size := unsafe.Sizeof(node{}) + unsafe.Sizeof(cell{})
	if m.recent.on() {
		size += unsafe.Sizeof(recentCell{})
	}
	if m.tell != nil {
		size += unsafe.Sizeof(uint64(0))
	}
	return int64(size)
}

// chunkBytes returns the memory of a chunk. The map grows in such steps.
func (m *Map) chunkBytes() int64 { return m.nodeBytes() * chunkLen }

// prune prunes once and reports whether that removed anything.
func (m *Map) prune(toBytes int64) bool {
	p := newPruning(m)
	p.choose(toBytes)
	return p.apply()
}

// pruning is one prune of a map. It works on compressed paths ([subtrees]): all nodes
// of a path have the same weight. It keeps the first nodes of a path, mostly all or
// none, and some only if all of the path above stay.
type pruning struct {
	m *Map
	subtrees
	old struct { // the map as it was
		nodes
		columns columns
		recent  recent
	}
	lately  []weights  // by path, in the clock's octave; nil without a window
	last    []NodeID   // by path: its last node
	method  []MethodID // by path: of its first node
	keep    []uint32   // by path: how many of its nodes are kept
	fate    []fate     // by path: of the other nodes
	removed uint64     // nodes
	entries int        // of the table
}

// fate is the fate of the nodes of a path that are not kept.
type fate uint8

const (
	kept     fate = iota // there are no such nodes
	absorbed             // a position goes to its parent
	hung                 // their parent is kept, and gets a [pruned] child for them
	lost                 // they are below a removed node, or count nothing
)

// newPruning adds up the weights of the paths. It forgets the known stacks, whose nodes may get
// other ids.
func newPruning(m *Map) *pruning {
	m.countDue()
	m.stacks.forgetAll()
	p := &pruning{m: m}
	p.old.nodes, p.old.columns, p.old.recent = m.nodes, m.columns, m.recent
	p.build(&m.nodes, &m.columns)
	p.last = make([]NodeID, 0, len(p.sums))
	for n := range p.Ends() {
		p.last = append(p.last, NodeID(n))
	}
	p.method = make([]MethodID, len(p.sums))
	for r := range p.method {
		p.method[r] = m.at(p.first(r)).method
	}
	if m.recent.on() {
		p.lately = make([]weights, len(p.sums))
		for r, n := range p.last {
			p.lately[r] = m.recent.inOctave(n)
		}
		tree.SumUp(p.Above, p.lately, (*weights).add)
	}
	p.keep, p.fate = make([]uint32, len(p.sums)), make([]fate, len(p.sums))
	return p
}

// apply removes the nodes that were not chosen.
func (p *pruning) apply() bool {
	if p.removed == 0 {
		return false
	}
	p.evict()
	p.rewrite()
	p.m.meta.Pruned.Times++
	p.m.meta.Pruned.Nodes += p.removed
	return true
}

// first returns the first node of a path.
func (p *pruning) first(r int) NodeID {
	if r == 0 {
		return 0
	}
	return p.last[r-1] + 1
}

// size returns how many nodes a path has.
func (p *pruning) size(r int) uint32 { return uint32(p.last[r] + 1 - p.first(r)) }

// gone returns the first node of a path that is not kept.
func (p *pruning) gone(r int) NodeID { return p.first(r) + NodeID(p.keep[r]) }

// whole reports whether all nodes of a path are kept.
func (p *pruning) whole(r int) bool { return p.keep[r] == p.size(r) }

// parent returns the path whose last kept node is the parent of the first removed
// node of a path.
func (p *pruning) parent(r int) int {
	if p.keep[r] > 0 {
		return r
	}
	return int(p.Above[r])
}

// isBranch reports whether the path does not follow the node that it hangs at.
func (p *pruning) isBranch(r int) bool { return r > 0 && int(p.Above[r]) != r-1 }

// isPruned reports whether a path is one [pruned] node.
func (p *pruning) isPruned(r int) bool { return p.method[r] == PrunedID && r > 0 }

// choose decides which nodes to keep so that the map takes toBytes. The number of
// [pruned] nodes is known only afterwards: if it is too large, choose tries again with
// less room. A chunk full of nodes may always stay, as the map has that chunk anyway.
func (p *pruning) choose(toBytes int64) {
	const tries = 8
	h := p.histogram()
	limit := max(toBytes-p.m.fixedBytes(), p.m.chunkBytes()+chunkLen*tableBytes)
	for room, try := limit, 0; room >= 0 && try < tries; try++ {
		p.keepHeaviest(&h, room)
		over := p.cost() - limit
		if over <= 0 {
			break
		}
		room -= over + over/4
	}
}

// Weights fall into buckets that are 9 to 12 percent wide: by the exponent and
// the leading bits of the fraction.
const (
	bucketShift = 52 - 3
	buckets     = 1 << (63 - bucketShift)
)

// histogram has the bytes of the paths by their weight.
type histogram [buckets]int64

func (p *pruning) histogram() histogram {
	var h histogram
	for r := 1; r < len(p.sums); r++ {
		h[p.bucket(r)] += p.pathCost(r, p.size(r))
	}
	return h
}

// bucket returns the bucket of a path's weight, which includes everything below it.
// Samples count as ns, so that samples without time weigh something. Under a window
// older counts weigh as if they were 21 windows old: enough to order contexts that
// have no other weight.
func (p *pruning) bucket(r int) int {
	const old = 1.0 / (1 << 30)
	s := p.sums[r]
	weight := float64(s.time) + float64(s.samples)
	if p.lately != nil {
		weight = weight*old + p.lately[r].time + p.lately[r].samples
	}
	return int(math.Float64bits(weight) >> bucketShift)
}

// keepHeaviest keeps the heaviest paths that there is room for, the newest among
// paths of the same weight, and the nodes that must stay with them.
func (p *pruning) keepHeaviest(h *histogram, room int64) {
	p.keep[0] = p.fitting(0, &room)
	cut := buckets - 1
	for cut > 0 && room >= h[cut] {
		room -= h[cut]
		cut--
	}
	for r := len(p.sums) - 1; r > 0; r-- {
		switch b := p.bucket(r); {
		case b > cut:
			p.keep[r] = p.size(r)
		case b == cut:
			p.keep[r] = p.fitting(r, &room)
		default:
			p.keep[r] = 0
		}
	}
	p.connect()
}

// fitting returns how many nodes of a path there is room for, and takes the room.
func (p *pruning) fitting(r int, room *int64) uint32 {
	n := p.size(r)
	if cost := p.pathCost(r, n); cost > *room {
		n = uint32(max(*room-tableBytes, 0) / p.m.nodeBytes())
	}
	if r == 0 {
		n = max(n, 1) // the root stays
	}
	*room = max(*room-p.pathCost(r, n), 0)
	return n
}

// connect removes paths whose parent is not kept, keeps [pruned] nodes whose parent
// is kept, and sets the fate of the removed nodes.
func (p *pruning) connect() {
	p.removed = 0
	for r := range p.keep {
		whole := r == 0 || p.whole(int(p.Above[r]))
		switch {
		case !whole:
			p.keep[r] = 0
		case p.isPruned(r):
			p.keep[r] = p.size(r)
		}
		p.fate[r] = p.fateOf(r, whole)
		p.removed += uint64(p.size(r) - p.keep[r])
	}
}

func (p *pruning) fateOf(r int, whole bool) fate {
	switch {
	case p.whole(r):
		return kept
	case !whole || p.sums[r] == span{}:
		return lost
	case p.keep[r] > 0 && p.old.isPosition(p.gone(r)) || p.keep[r] == 0 && p.method[r] == NoMethod:
		return absorbed
	}
	return hung
}

// tableBytes is the memory of the table for one node.
const tableBytes = 12

// pathCost returns the bytes that the first n nodes of a path take.
func (p *pruning) pathCost(r int, n uint32) int64 {
	if n == 0 {
		return 0
	}
	cost := int64(n) * p.m.nodeBytes()
	if p.isBranch(r) {
		cost += tableBytes
	}
	return cost
}

// cost returns the bytes that nodes, counters and table will take, and counts the
// table's entries.
func (p *pruning) cost() int64 {
	hanging := make([]bool, len(p.keep)) // by path: whether its last kept node has a [pruned] child
	nodes := int64(1)                    // there is always room for one node more
	p.entries = 0
	for r, n := range p.keep {
		nodes += int64(n)
		if n > 0 && p.isBranch(r) {
			p.entries++
		}
		if r > 0 && n > 0 && p.isPruned(r) {
			hanging[p.Above[r]] = true
		}
	}
	for r, f := range p.fate {
		if f == hung && !hanging[p.parent(r)] {
			hanging[p.parent(r)] = true
			nodes++
			p.entries++
		}
	}
	chunks := (nodes + chunkMask) / chunkLen
	return chunks*p.m.chunkBytes() + int64(p.entries)*tableBytes
}

// rewrite copies the kept nodes into new chunks, in their order, and hangs the counts
// of the others at [pruned] nodes after them.
func (p *pruning) rewrite() {
	c := newCopier(p)
	for r := range p.keep {
		if p.keep[r] > 0 {
			c.copyPath(r)
		}
	}
	for r, f := range p.fate {
		switch f {
		case absorbed:
			c.count(c.moved[p.parent(r)], r)
		case hung:
			c.count(c.hang(p.parent(r)), r)
		}
	}
	for n, over := range p.old.columns.wide {
		if r := int(p.Of(uint32(n))); p.whole(r) {
			p.m.columns.spill(c.moved[r], over)
		}
	}
	p.m.generation++
}

// copier copies a map into itself.
type copier struct {
	*pruning
	moved    []NodeID // by path: the new id of its last kept node
	released int      // chunks of old that are not needed any more
}

// newCopier empties the map, except the evicted counters.
func newCopier(p *pruning) *copier {
	m := p.m
	p.old.nodes.chunks = slices.Clone(m.nodes.chunks) // snapshots share the slice
	m.nodes, m.ids.nodes = nodes{}, nil
	m.columns = columns{epoch: m.columns.epoch}
	m.recent.chunks = nil
	m.table.reset(p.entries)
	m.addChunk()
	return &copier{pruning: p, moved: make([]NodeID, len(p.keep))}
}

// copyPath copies the kept nodes of a path.
func (c *copier) copyPath(r int) {
	first := c.first(r)
	what := *c.old.at(first)
	if r > 0 {
		what.parent = c.moved[c.Above[r]]
	}
	n := c.copyNodes(first, c.gone(r))
	*c.m.at(n) = what
	if r > 0 && what.parent+1 != n {
		c.m.table.insert(n, what)
	}
	c.moved[r] = n + NodeID(c.keep[r]-1)
	c.release(first)
}

// copyNodes copies nodes that follow each other, from o up to end, and returns the new
// id of the first. The caller sets the parent of the first.
func (c *copier) copyNodes(o, end NodeID) NodeID {
	m, first := c.m, NodeID(c.m.nodes.len)
	for o < end {
		n := NodeID(m.nodes.len)
		to := m.nodes.from(n, n+end-o)
		k := NodeID(copy(to, c.old.from(o, end)))
		copy(m.columns.from(n, n+k), c.old.columns.from(o, o+k))
		for i := range to[:k] {
			to[i].parent += n - o
		}
		if c.lately != nil {
			c.copyRecent(n, o, k)
		}
		if m.nodes.len += uint32(k); m.nodes.len&chunkMask == 0 {
			m.addChunk()
		}
		o += k
	}
	return first
}

// copyRecent copies the recent counters of k nodes, which lie in one chunk, into
// the clock's octave.
func (c *copier) copyRecent(n, o, k NodeID) {
	from := &c.old.recent.chunks[o>>chunkBits]
	f := float32(octaves(from.octave - c.m.recent.octave))
	to := c.m.recent.chunks[n>>chunkBits].cells[n&chunkMask:][:k]
	for i, cell := range from.cells[o&chunkMask:][:k] {
		to[i] = recentCell{cell.samples * f, cell.time * f}
	}
}

// release drops the chunks before the chunk of a node: all later copies come after it.
func (c *copier) release(n NodeID) {
	for end := int(n >> chunkBits); c.released < end; c.released++ {
		c.old.nodes.chunks[c.released] = nil
		c.old.columns.chunks[c.released].cells = nil
		if c.lately != nil {
			c.old.recent.chunks[c.released].cells = nil
		}
	}
}

// hang returns the [pruned] child of the last kept node of a path.
func (c *copier) hang(r int) NodeID {
	return c.m.child(node{NoOffset, PrunedID, c.moved[r]})
}

// count counts the sum of a path, with all below it, at a node.
func (c *copier) count(n NodeID, r int) {
	c.m.columns.add(n, c.sums[r].counters())
	if c.lately != nil {
		c.m.recent.addScaled(n, c.lately[r])
	}
}
