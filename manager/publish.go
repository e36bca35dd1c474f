package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Snapshot returns the map as it was published last, and asks for a newer one,
// which the manager publishes within [Config.PublishEvery] and a turn if there
// is anything new; its profile points may be a second older, or more if there are
// very many. Without readers nothing is published. The first call after a pause
// thus returns a snapshot as old as the pause. After Run has returned it is the
// final one.
//
// Any goroutine may call it at any time; it never waits.
func (m *Manager) Snapshot() *ccmap.Snapshot {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	return m.latest.Load()
}

// publish makes the map as it is the latest snapshot, unless it has not changed.
func (m *Manager) publish() {
	m.published = time.Now()
	if !m.stale {
		return
	}
	m.stale = !m.keepPoints()
	m.keepLoss()
	m.config.Map.Meta().Duration = time.Since(m.start)
	m.latest.Store(m.config.Map.Snapshot())
}

// keepLoss brings what was lost on the way to the map into its metadata, beside
// what the map itself has counted there.
func (m *Manager) keepLoss() {
	stats := m.config.Source.Stats()
	m.keepWarnings(stats.Warning, m.values.filed.warning())
	now := stats.Loss
	now.Queue += m.config.Queue.Stats().Dropped
	l := &m.config.Map.Meta().Loss
	l.Source, l.Queue, l.Throttled = now.Source, now.Queue, now.Throttled
	l.Clock, l.ClockTick, l.Unaccounted = now.Clock, now.ClockTick, now.Unaccounted
	l.Corrupt += now.Corrupt - m.loss.Corrupt
	l.Orphaned += now.Orphaned - m.loss.Orphaned
	m.loss = now
}

// keepWarnings makes the present warnings comments, those that are not empty.
func (m *Manager) keepWarnings(warnings ...string) {
	comments := m.comments
	for _, warning := range warnings {
		if warning != "" {
			comments = append(comments, ccmap.CommentWarning+warning)
		}
	}
	m.config.Map.Meta().Comments = comments
}
