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

// points returns the profile points of all caught calls, for the map.
func (v *values) points() []ccmap.Point {
	if v.off() {
		return nil
	}
	return v.filed.points(v.latest())
}

// latest returns the points of the calls since the last cut. Null receivers are never
// seen: a call on a nil interface panics before it is made.
func (v *values) latest() []ccmap.Point {
	var points []ccmap.Point
	for view := range v.caught.Points() {
		points = append(points, ccmap.Point{
			Origin:  ccmap.OriginBurst,
			Kind:    ccmap.PointCall,
			Method:  ccmap.MethodID(view.Site.Method),
			Offset:  view.Site.Offset,
			End:     view.Site.Offset,
			Callers: v.contexts.frames(view.Site.Context),
			Count:   int64(view.Count),
			Values:  pointValues(view.Values),
			Other:   int64(view.Other),
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
	Points  int    // profile points
	Bytes   int    // of memory that these take, their tables included
	Evicted int    // points that had few calls and made room for others
	Lost    uint64 // of the caught calls, those in no point any more
	Decayed int    // times that the janitor has halved a table
	Reset   int    // times that it has cleared one
}

// stats takes time in proportion to the points.
func (v *values) stats() ValueStats {
	if v.off() {
		return ValueStats{}
	}
	points := v.points()
	s := v.caught.Stats()
	out := ValueStats{
		Caught: v.calls, Points: len(points), Bytes: s.Bytes + v.filed.bytes(),
		Evicted: s.Evicted + v.filed.evicted, Lost: s.Lost + v.filed.lost,
		Decayed: s.Decays, Reset: s.Resets,
	}
	for _, p := range ccmap.SumPhases(points) {
		if p.Callers == nil {
			out.Sites++
		}
	}
	return out
}
