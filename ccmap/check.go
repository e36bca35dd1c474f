package ccmap

import (
	"fmt"
	"math"
)

// CheckValid returns an error that says which invariant of the map is broken, nil if
// all hold. It is for tests and for maps that were decoded.
func (m *Map) CheckValid() error {
	m.countDue()
	c := m.content()
	if err := c.check(); err != nil {
		return err
	}
	if err := m.checkTable(); err != nil {
		return err
	}
	return m.checkStacks()
}

// CheckValid is [Map.CheckValid] for a snapshot.
func (s *Snapshot) CheckValid() error {
	c := content{&s.nodes, &s.columns, &s.recent, &s.evicted, s.points, s.names, s.total}
	return c.check()
}

func (m *Map) content() content {
	return content{&m.nodes, &m.columns, &m.recent, &m.evicted, m.points.all(), m.names, m.total}
}

// content is the part that maps and snapshots have in common.
type content struct {
	*nodes
	columns *columns
	recent  *recent
	evicted *evicted
	points  []Point
	names   *Names
	total   Counters
}

// check checks structure and counters, and that the counters add up.
func (c *content) check() error {
	if c.len == 0 || *c.at(0) != rootNode {
		return fmt.Errorf("node 0 is not a root")
	}
	if int(c.len) >= len(c.chunks)*chunkLen || len(c.chunks) != len(c.columns.chunks) {
		return fmt.Errorf("%d nodes in %d chunks, with %d chunks of counters", c.len, len(c.chunks), len(c.columns.chunks))
	}
	if c.recent.on() && len(c.recent.chunks) != len(c.chunks) {
		return fmt.Errorf("%d chunks of nodes and %d of recent counters", len(c.chunks), len(c.recent.chunks))
	}
	if err := checkPoints(c.points, c.names); err != nil {
		return err
	}
	sum, err := c.evicted.check(c.names.Len())
	if err != nil {
		return err
	}
	methods := c.names.Len()
	for n := NodeID(1); uint32(n) < c.len; n++ {
		if err := c.checkNode(n, methods); err != nil {
			return err
		}
		self := c.columns.at(n)
		if err := c.checkCounts(n, self); err != nil {
			return err
		}
		sum = sum.Add(self)
	}
	if sum != c.total {
		return fmt.Errorf("counters add up to %+v instead of %+v", sum, c.total)
	}
	return nil
}

// checkCounts checks the counters of a node.
func (c *content) checkCounts(n NodeID, self Counters) error {
	switch {
	case self.IsNegative():
		return fmt.Errorf("node %d has a negative counter: %+v", n, self)
	case self.Activations != 0 && c.isPosition(n):
		return fmt.Errorf("position node %d has activations", n)
	case self.Activations != 0 && c.at(n).method == PrunedID:
		return fmt.Errorf("node %d, %s, has activations", n, PrunedName)
	}
	if !c.recent.on() {
		return nil
	}
	w := c.recent.at(n)
	if !w.isValid() {
		return fmt.Errorf("node %d has recent counters %v", n, w)
	}
	if w != (weights{}) && self.Samples == 0 && self.Time == 0 {
		return fmt.Errorf("node %d has recent counters only", n)
	}
	return nil
}

func (w weights) isValid() bool {
	return w.samples >= 0 && w.samples < math.Inf(1) && w.time >= 0 && w.time < math.Inf(1)
}

// check checks the evicted counters and returns their part of the total: the
// activations of removed nodes.
func (b *evicted) check(methods int) (sum Counters, err error) {
	isKnown := func(m MethodID) bool { return int64(m) < int64(methods) }
	if len(b.Keys) != len(b.edges) {
		return sum, fmt.Errorf("%d pruned edges have counts of %d", len(b.Keys), len(b.edges))
	}
	for i, k := range b.Keys {
		e := &b.edges[i]
		if !isKnown(k.Caller) && !(k.Caller == NoMethod && isKnown(k.Callee)) || !isKnown(k.Callee) && k.Callee != NoMethod {
			return sum, fmt.Errorf("pruned edge %+v has methods of %d", k, methods)
		}
		if e.total.IsNegative() || !e.recent.isValid() {
			return sum, fmt.Errorf("pruned edge %+v has counts %+v, recent %v", k, e.total, e.recent)
		}
		sum.Activations = addSaturated(sum.Activations, e.total.Activations)
	}
	for i := range b.methods {
		m := &b.methods[i]
		if !isKnown(m.method) {
			return sum, fmt.Errorf("pruned method %d of %d", m.method, methods)
		}
		if min(m.self.samples, m.self.time, m.cumulative.samples, m.cumulative.time) < 0 || !m.recentSelf.isValid() || !m.recentCumulative.isValid() {
			return sum, fmt.Errorf("pruned method %d has counts %+v", m.method, *m)
		}
	}
	return sum, nil
}

func (t *nodes) checkNode(n NodeID, methods int) error {
	what := *t.at(n)
	switch p, method := what.parent, what.method; {
	case p >= n:
		return fmt.Errorf("node %d has parent %d", n, p)
	case p == 0 && (what.offset != NoOffset || method == NoMethod):
		return fmt.Errorf("node %d below the root is not an outermost frame", n)
	case method == NoMethod && what.offset == NoOffset:
		return fmt.Errorf("node %d is an unknown position", n)
	case t.isPosition(p):
		return fmt.Errorf("node %d is below the position node %d", n, p)
	case p != 0 && t.at(p).method == PrunedID:
		return fmt.Errorf("node %d is below node %d, %s", n, p, PrunedName)
	case method == PrunedID && what.offset != NoOffset:
		return fmt.Errorf("node %d, %s, has a call site", n, PrunedName)
	case method != NoMethod && int64(method) >= int64(methods):
		return fmt.Errorf("node %d has method %d of %d", n, method, methods)
	}
	return nil
}

// checkTable checks that the table holds exactly the nodes that do not follow their
// parent, that each node is found, and that no child exists twice.
func (m *Map) checkTable() error {
	unchained := 0
	for n := NodeID(1); uint32(n) < m.nodes.len; n++ {
		if m.chained(n) {
			continue // it is the first that is looked at
		}
		if found := m.find(*m.at(n)); found != n {
			return fmt.Errorf("node %d is found as node %d", n, found)
		}
		unchained++
	}
	filled := 0
	for _, p := range m.table.parts {
		for _, e := range p.slots {
			if e != 0 {
				filled++
			}
		}
	}
	if filled != unchained || m.table.used != unchained {
		return fmt.Errorf("table has %d entries and counts %d for %d nodes", filled, m.table.used, unchained)
	}
	return nil
}

// checkStacks checks that each known stack is the stack of its node.
func (m *Map) checkStacks() error {
	used := 0
	for _, e := range m.stacks.slots {
		if e.node == 0 {
			continue
		}
		used++
		if uint32(e.node) >= m.nodes.len {
			return fmt.Errorf("a known stack counts at node %d of %d", e.node, m.nodes.len)
		}
		frames := m.stack(e.node)
		if len(frames) > maxKnownDepth {
			return fmt.Errorf("a known stack has %d frames", len(frames))
		}
		if m.stacks.id(frames) != e.id() {
			return fmt.Errorf("node %d is not where its known stack counts", e.node)
		}
	}
	if used != m.stacks.used {
		return fmt.Errorf("%d known stacks, counted as %d", used, m.stacks.used)
	}
	return nil
}

// stack returns the stack that counts at a node, innermost frame first.
func (m *Map) stack(n NodeID) (frames []Frame) {
	offset := NoOffset
	if m.isPosition(n) {
		n, offset = m.at(n).parent, m.at(n).offset
	}
	for ; n != 0; n = m.at(n).parent {
		frames = append(frames, Frame{m.at(n).method, offset})
		offset = m.at(n).offset
	}
	return frames
}

// find returns a node, 0 if it does not exist. Unlike child, it adds nothing.
func (m *Map) find(what node) NodeID {
	if next := what.parent + 1; *m.at(next) == what {
		return next
	}
	return m.table.find(&m.nodes, what)
}
