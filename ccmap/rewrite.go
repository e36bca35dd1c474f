package ccmap

import "slices"

// rewrite copies what is kept into new chunks, in its order, and hangs the rest
// at [pruned] nodes behind it.
func (p *pruning) rewrite() {
	c := newCopier(p)
	for r := range p.keep {
		if p.keep[r] > 0 {
			c.copyRun(r)
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
		if r := int(p.run(n)); p.whole(r) {
			p.m.columns.spill(c.moved[r], over)
		}
	}
	p.m.generation++
}

// copier copies a map into itself.
type copier struct {
	*pruning
	moved    []NodeID // by run: its last kept node
	released int      // chunks of old that are not needed any more
}

// newCopier empties the map, but for the bases.
func newCopier(p *pruning) *copier {
	m := p.m
	p.old.nodes.chunks = slices.Clone(m.nodes.chunks) // snapshots share the slice
	m.nodes = nodes{}
	m.columns = columns{epoch: m.columns.epoch}
	m.recent.chunks = nil
	m.table.reset(p.entries)
	m.addChunk()
	return &copier{pruning: p, moved: make([]NodeID, len(p.keep))}
}

// copyRun copies what is kept of a run.
func (c *copier) copyRun(r int) {
	first := c.first(r)
	what := *c.old.at(first)
	if r > 0 {
		what.parent = c.moved[c.above[r]]
	}
	n := c.copyNodes(first, c.gone(r))
	*c.m.at(n) = what
	if r > 0 && what.parent+1 != n {
		c.m.table.insert(n, what)
	}
	c.moved[r] = n + NodeID(c.keep[r]-1)
	c.release(first)
}

// copyNodes copies nodes that follow each other, from o up to end, and returns
// what the first has become. That one's parent is still to be set.
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

// release drops the chunks before that of a node: what comes now lies behind them.
func (c *copier) release(n NodeID) {
	for end := int(n >> chunkBits); c.released < end; c.released++ {
		c.old.nodes.chunks[c.released] = nil
		c.old.columns.chunks[c.released].cells = nil
		if c.lately != nil {
			c.old.recent.chunks[c.released].cells = nil
		}
	}
}

// hang returns the [pruned] child of the last kept node of a run.
func (c *copier) hang(r int) NodeID {
	if c.pruned == NoMethod {
		c.pruned = c.m.names.Intern(Method{Name: PrunedName})
	}
	return c.m.child(node{NoOffset, c.pruned, c.moved[r]})
}

// count counts what a run and all below it weigh at a node.
func (c *copier) count(n NodeID, r int) {
	c.m.columns.add(n, c.sums[r].counters())
	if c.lately != nil {
		c.m.recent.addScaled(n, c.lately[r])
	}
}
