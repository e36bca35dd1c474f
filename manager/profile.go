package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// takeProfile merges a profile of a [ProfileSource], in a turn of its own. All of the
// profile is recent. If it cannot be merged, its samples count as lost.
func (m *Manager) takeProfile(p *ccmap.Map) {
	sum := m.config.Map
	meta := sum.Meta()
	meta.Target = m.config.Source.Info().Target
	m.followInterval()
	if window := m.latest.Load().Meta().Window; window > 0 {
		makeRecent(p, window)
	}
	s := p.Snapshot()
	total := s.Total()
	m.turn = turn{samples: int(total.Samples), weight: total.Time}
	settled := meta.Settled // a merge drops it
	if err := sum.Merge(s); err != nil {
		m.turn, m.stale = turn{}, true
		meta.Loss.Corrupt += uint64(total.Samples)
		m.config.Logger.Warn("leave out profile", "samples", total.Samples, "error", err)
	}
	meta.Settled = settled
	m.endTurn()
}

// followInterval keeps the interval in the metadata where the target has set it.
func (m *Manager) followInterval() {
	changes := m.config.Map.Meta().Interval
	if is := m.config.Source.Stats().Interval; is != changes[len(changes)-1].Interval {
		m.keepInterval(time.Since(m.start), "the program's own")
	}
}

// makeRecent gives a profile a window that has all of it.
func makeRecent(p *ccmap.Map, window time.Duration) {
	s := p.Snapshot()
	p.SetWindow(window)
	for n := range s.Nodes() {
		p.AddRecent(n.ID, n.Self)
	}
}
