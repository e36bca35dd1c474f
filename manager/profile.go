package manager

import (
	"cmp"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// takeProfile merges a profile of a [ProfileSource], in a turn of its own. All of the
// profile is recent. If it cannot be merged, its samples count as lost, and its points are left out.
func (m *Manager) takeProfile(p *ccmap.Map) {
	if !m.admitted() {
		total := p.Snapshot().Total()
		m.admission.refuse(int(total.Samples), total.Time)
		return
	}
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
	} else if len(s.Points()) > 0 {
		m.takePoints(s)
	}
	meta.Settled = settled
	m.endTurn()
}

// takePoints takes over the points of a profile that was merged. The points of caught calls join the
// session's own, which replace all of that origin in the map. The map has as many points of each origin as of caught
// calls at most, so that a source cannot fill the memory.
func (m *Manager) takePoints(s *ccmap.Snapshot) {
	m.stale = true
	sum, points := m.config.Map, s.Points()
	if s.Names() != sum.Names() {
		own := ccmap.New(ccmap.Options{Names: sum.Names()})
		if err := own.Merge(s); err != nil {
			m.config.Logger.Warn("leave out points of profile", "error", err)
			return
		}
		points = own.Snapshot().Points()
	}
	m.values.addPoints(points)
	all, limit := sum.Snapshot().Points(), cmp.Or(m.values.phased.limit, defaultPoints)
	for _, origin := range []ccmap.Origin{ccmap.OriginSampled, ccmap.OriginBurst, ccmap.OriginImported, ccmap.OriginVM} {
		list := pointsOf(all, origin)
		if kept := mostFrequent(list, limit); len(kept) < len(list) {
			sum.SetPoints(origin, kept)
		}
	}
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
