package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

const (
	// pointsEvery is the least time between two times that the map gets the
	// profile points anew. There are thousands of them, and few change.
	pointsEvery = time.Second
	// pointsShare bounds what that costs: one part in so many of the manager's time.
	pointsShare = 50
)

// keepPoints gives the map what was learned of calls, unless it got that just
// before. It reports whether the map now has all of it.
func (m *Manager) keepPoints() bool {
	v := m.values
	if !v.news {
		return true
	}
	start := time.Now()
	if start.Before(v.earliest) {
		return false
	}
	m.config.Map.SetPoints(ccmap.OriginBurst, v.points())
	v.news = false
	now := time.Now()
	v.earliest = now.Add(max(pointsEvery, pointsShare*now.Sub(start)))
	return true
}

// points returns the profile points of caught calls, for the map. Null receivers are never seen: a call
// on a nil interface panics before it is made.
func (v *values) points() []ccmap.Point {
	if v.off() {
		return nil
	}
	var points []ccmap.Point
	for view := range v.caught.Points() {
		points = append(points, ccmap.Point{
			Kind:    ccmap.PointCall,
			Method:  ccmap.MethodID(view.Site.Method),
			Offset:  view.Site.Offset,
			End:     view.Site.Offset,
			Callers: v.contexts.frames(view.Site.Context),
			Count:   int64(view.Count),
			Values:  pointValues(view.Values),
			Other:   int64(view.Other),
			Aged:    int64(view.Aged),
			Nulls:   ccmap.NullsUnknown,
		})
	}
	return points
}

func pointValues(values []valueprof.Value) []ccmap.PointValue {
	counts := make([]ccmap.PointValue, len(values))
	for i, v := range values {
		counts[i] = ccmap.PointValue{Value: v.Value, Count: int64(v.Count)}
	}
	return counts
}

// ValueStats says what was learned of the target's calls. Counts are since the
// start of the session.
type ValueStats struct {
	Caught  uint64 // calls that breakpoints caught, of a known place
	Sites   int    // where they were caught
	Points  int    // profile points of caught calls
	Bytes   int    // of memory that these take, their tables included
	Evicted int    // points that had few calls and made room for others
	Decayed int    // times that the janitor has halved a table
	Reset   int    // times that it has cleared one
}

// stats takes time in proportion to the points.
func (v *values) stats() ValueStats {
	if v.off() {
		return ValueStats{}
	}
	out := ValueStats{Caught: v.calls}
	for view := range v.caught.Points() {
		if view.Site.Context == anyContext {
			out.Sites++
		}
	}
	s := v.caught.Stats()
	out.Points, out.Bytes = s.Points, s.Bytes
	out.Evicted, out.Decayed, out.Reset = s.Evicted, s.Decays, s.Resets
	return out
}
