package ccmap

import "fmt"

// CheckValid returns an error that says which invariant of the map is broken,
// nil if none is. It is for tests and for maps that were decoded.
func (m *Map) CheckValid() error {
	if err := checkTrie(&m.nodes, &m.columns, m.names, m.total); err != nil {
		return err
	}
	return m.checkTable()
}

// CheckValid is that of [Map], for a snapshot.
func (s *Snapshot) CheckValid() error {
	return checkTrie(&s.nodes, &s.columns, s.names, s.total)
}

// checkTrie checks structure and counters, and that the counters add up.
func checkTrie(t *nodes, c *columns, names *Names, total Counters) error {
	if t.len == 0 || *t.at(0) != rootNode {
		return fmt.Errorf("node 0 is not a root")
	}
	if int(t.len) >= len(t.chunks)*chunkLen || len(t.chunks) != len(c.chunks) {
		return fmt.Errorf("%d nodes in %d chunks, with %d chunks of counters", t.len, len(t.chunks), len(c.chunks))
	}
	var sum Counters
	for n := NodeID(1); uint32(n) < t.len; n++ {
		if err := t.checkNode(n, names.Len()); err != nil {
			return err
		}
		self := c.at(n)
		if min(self.Samples, self.Time, self.Activations) < 0 {
			return fmt.Errorf("node %d has a negative counter: %+v", n, self)
		}
		if self.Activations != 0 && t.isPosition(n) {
			return fmt.Errorf("position node %d has activations", n)
		}
		sum = sum.Add(self)
	}
	if sum != total {
		return fmt.Errorf("counters add up to %+v instead of %+v", sum, total)
	}
	return nil
}

func (t *nodes) checkNode(n NodeID, methods int) error {
	what := *t.at(n)
	switch p, method := what.parent, what.method; {
	case p >= n:
		return fmt.Errorf("node %d has parent %d", n, p)
	case p == 0 && (what.offset != NoOffset || method == NoMethod):
		return fmt.Errorf("node %d below the root is no outermost frame", n)
	case method == NoMethod && what.offset == NoOffset:
		return fmt.Errorf("node %d is an unknown position", n)
	case t.isPosition(p):
		return fmt.Errorf("node %d is below the position node %d", n, p)
	case method != NoMethod && int64(method) >= int64(methods):
		return fmt.Errorf("node %d has method %d of %d", n, method, methods)
	}
	return nil
}

// checkTable checks that the table has the nodes that do not follow their
// parent, can find each, and no others; and that no child is there twice.
func (m *Map) checkTable() error {
	unchained := 0
	for n := NodeID(1); uint32(n) < m.nodes.len; n++ {
		if found := m.find(*m.at(n)); found != n {
			return fmt.Errorf("node %d is found as node %d", n, found)
		}
		if !m.chained(n) {
			unchained++
		}
	}
	filled := 0
	for _, e := range m.table.slots {
		if e != 0 {
			filled++
		}
	}
	if filled != unchained || m.table.used != unchained {
		return fmt.Errorf("table has %d entries and counts %d for %d nodes", filled, m.table.used, unchained)
	}
	return nil
}

// find returns a node, 0 if there is none. Unlike child, it adds nothing.
func (m *Map) find(what node) NodeID {
	if next := what.parent + 1; *m.at(next) == what {
		return next
	}
	return m.table.find(&m.nodes, what)
}
