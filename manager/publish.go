package manager

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
)

// Snapshot returns the map as it was published last, and asks for a newer snapshot.
// The manager publishes it within [Config.PublishEvery] and a turn if anything has
// changed. Its profile points may be a second older, or more if there are very many.
// Without readers the manager publishes nothing. So the first call after a pause
// returns a snapshot as old as the pause. After Run has returned, Snapshot returns
// the final one.
//
// Any goroutine may call it at any time. It never waits.
func (m *Manager) Snapshot() *ccmap.Snapshot {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	return m.latest.Load()
}

// Fresh returns a snapshot that is published after the call, or the final one. It waits for
// [Config.PublishEvery] and a turn at most. Any goroutine may call it while the session runs, and
// after. An error means that ctx is done.
func (m *Manager) Fresh(ctx context.Context) (*ccmap.Snapshot, error) {
	m.mu.Lock()
	next := m.next
	m.mu.Unlock()
	last := m.Snapshot()
	select {
	case <-next:
		return m.latest.Load(), nil
	case <-m.ended:
		return m.latest.Load(), nil
	case <-ctx.Done():
		return last, fmt.Errorf("wait for snapshot: %w", context.Cause(ctx))
	}
}

// publish makes the present map the latest snapshot if the map has changed.
func (m *Manager) publish() {
	defer close(m.beginPublication())
	m.published = time.Now()
	m.keepCounted()
	if !m.stale {
		return
	}
	m.stale = !m.keepPoints()
	m.keepLoss()
	m.config.Map.Meta().Duration = m.earlier.Duration + time.Since(m.start)
	m.latest.Store(m.config.Map.Snapshot())
}

// beginPublication returns the channel that all readers wait for that have asked before.
func (m *Manager) beginPublication() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited := m.next
	m.next = make(chan struct{})
	return waited
}

// keepLoss enters the losses between target and map into the map's metadata, beside
// the losses that the map itself has counted there.
func (m *Manager) keepLoss() {
	stats := m.config.Source.Stats()
	session := append([]string{stats.Overhead.String(), m.held.comment()}, stats.Files...)
	if stats.Unseen != "" {
		session = append(session, ccmap.CommentUnaccounted+stats.Unseen)
	}
	m.keepComments(session, stats.Warning, m.values.phased.warning())
	now := stats.Loss
	now.Queue += m.info.Sink.Queue.Stats().Dropped
	now.Source += uint64(m.admission.refused)
	now.Unaccounted += time.Duration(m.admission.weight)
	l := &m.config.Map.Meta().Loss
	sum := m.earlier.Loss.Add(now)
	sum.Corrupt = l.Corrupt + now.Corrupt - m.loss.Corrupt // the map counts these two, too
	sum.Orphaned = l.Orphaned + now.Orphaned - m.loss.Orphaned
	*l, m.loss = sum, now
	m.config.Map.Meta().Elided = m.earlier.Elided.Add(stats.Elided)
}

// isOfSession reports whether a comment is one of keepComments about its session alone.
func isOfSession(comment string) bool {
	ofSession := []string{ccmap.CommentHeld, ccmap.CommentUnaccounted, ccmap.CommentNoFrames, ccmap.CommentUnread, ccmap.CommentRequests}
	return sampler.IsOverhead(comment) || slices.ContainsFunc(ofSession, func(prefix string) bool { return strings.HasPrefix(comment, prefix) })
}

// keepComments adds what is said of the session, and the warnings, to the comments of the start, which
// may have the same warnings of an earlier session. Empty texts are left out.
func (m *Manager) keepComments(session []string, warnings ...string) {
	comments := slices.Clone(m.comments)
	for _, c := range session {
		if c != "" {
			comments = append(comments, c)
		}
	}
	for _, warning := range warnings {
		if c := ccmap.CommentWarning + warning; warning != "" && !slices.Contains(comments, c) {
			comments = append(comments, c)
		}
	}
	m.config.Map.Meta().Comments = comments
}

// SetMaxBytes changes the bound of the map, from the next turn on; 0 or less: no bound. Any goroutine
// may call it.
func (m *Manager) SetMaxBytes(bytes int64) {
	const none = -1
	m.maxBytes.Store(cmp.Or(bytes, none))
}
