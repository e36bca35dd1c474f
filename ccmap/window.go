package ccmap

import "time"

// SetWindow sets the time constant of the recent counters, which all begin at 0;
// 0 drops them. It is for decoders: others use Options.
func (m *Map) SetWindow(window time.Duration) {
	m.recent = recent{clock: newClock(window), epoch: m.recent.epoch}
	m.meta.Window = m.recent.window
	m.bases.forgetRecent()
	for range m.nodes.chunks {
		if m.recent.on() {
			m.recent.grow()
		}
	}
}

// Advance moves the window's clock to a time, CLOCK_MONOTONIC ns, as
// [Sample].Time is. It never goes backwards. Folding moves it as well.
func (m *Map) Advance(now int64) {
	if m.recent.on() {
		m.recent.advance(now)
	}
}

// AddRecent adds to the recent samples and time of a node, which must exist, as
// counted now. It is for decoders, after Add: nodes that have counted neither
// samples nor time have no recent ones. Without a window it does nothing.
func (m *Map) AddRecent(n NodeID, c Counters) {
	m.addRecent(n, c.weights())
}

func (m *Map) addRecent(n NodeID, w weights) {
	if self := m.columns.at(n); m.recent.on() && (self.Samples != 0 || self.Time != 0) {
		m.recent.add(n, w)
	}
}

// Recent returns the window as a snapshot, and whether there is one. It has the
// same nodes; their samples and time are the recent ones, rounded to whole
// numbers such that their sum is right, and their activations are 0. Points are
// those of the whole run. It has no window of its own. All that call it get the
// same.
func (s *Snapshot) Recent() (*Snapshot, bool) {
	if !s.recent.on() {
		return nil, false
	}
	s.window.once.Do(func() { s.window.Snapshot = s.recentSnapshot() })
	return s.window.Snapshot, true
}

func (s *Snapshot) recentSnapshot() *Snapshot {
	r := &Snapshot{nodes: s.nodes, points: s.points, names: s.names, meta: s.meta, inexact: s.inexact}
	r.meta.Settled = Settled{} // of the whole run
	r.recent.clock = newClock(0)
	r.columns, r.total = s.recent.columns(s.nodes.len)
	r.bases = s.bases.recent(s.removals())
	return r
}

// columns returns what is recent in whole numbers, and their sum.
func (r *recent) columns(nodes uint32) (c columns, total Counters) {
	var sum wholes
	for range r.chunks {
		c.grow()
	}
	for n := range NodeID(nodes) {
		w := sum.round(r.at(n))
		w.Samples, w.Time = admit(&total.Samples, w.Samples), admit(&total.Time, w.Time)
		c.add(n, w)
	}
	return c, total
}

// recent returns the bases with what is recent as the counts.
func (b *bases) recent(p *removed) bases {
	var r bases
	for _, e := range p.edges {
		r.keys, r.edges = append(r.keys, e.key()), append(r.edges, edgeBase{total: e.Recent})
	}
	for _, m := range p.methods {
		base := methodBase{method: m.Method}
		base.self.saturate(m.RecentSelf)
		base.cumulative.saturate(m.RecentCumulative)
		r.methods = append(r.methods, base)
	}
	return r
}
