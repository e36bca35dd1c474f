package manager

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// ValueStats counts the target's calls and the profile points made of them, since the
// start of the session.
type ValueStats struct {
	Caught  uint64 // calls that breakpoints caught, at a known place
	Sites   int    // of these calls
	Points  int    // profile points
	Bytes   int    // of memory for the points and their tables
	Evicted int    // points with few calls that made room for others
	Lost    uint64 // caught calls that are in no point any more
	Decayed int    // times that the janitor has halved a table
	Reset   int    // times that it has cleared one
	Counted int    // call sites where the target's own profile counts calls
}

// stats takes time in proportion to the number of points.
func (v *values) stats() ValueStats {
	if v.off() {
		return ValueStats{}
	}
	points := v.points()
	s := v.caught.Stats()
	out := ValueStats{
		Caught: v.calls, Points: len(points), Bytes: s.Bytes + v.phased.bytes(),
		Evicted: s.Evicted + v.phased.evicted, Lost: uint64(s.Lost + v.phased.lost),
		Decayed: s.Decays, Reset: s.Resets,
	}
	for _, p := range ccmap.SumPhases(points) {
		if p.Callers == nil {
			out.Sites++
		}
	}
	return out
}

// valueStats returns the statistics of all points. It takes time in proportion to their
// number.
func (m *Manager) valueStats() ValueStats {
	s := m.values.stats()
	s.Counted = m.countedSites
	return s
}

const (
	// pointsEvery is the least time between two updates of the map's profile points.
	// There are thousands of points, and few change.
	pointsEvery = time.Second
	// pointsShare bounds the cost: updates take at most one part in pointsShare of the
	// manager's time.
	pointsShare = 50
)

// keepPoints gives the profile points to the map, unless the last update was just
// before. It reports whether the map now has all points.
func (m *Manager) keepPoints() bool {
	v := m.values
	if !v.changed {
		return true
	}
	start := time.Now()
	if start.Before(v.earliest) {
		return false
	}
	m.config.Map.SetPoints(ccmap.OriginBurst, v.points())
	v.changed = false
	now := time.Now()
	v.earliest = now.Add(max(pointsEvery, pointsShare*now.Sub(start)))
	return true
}

// keepCounted gives the profile that the target keeps itself, or the calls that the source has counted, to the map, if
// that has changed.
func (m *Manager) keepCounted() {
	if m.counting == nil {
		return
	}
	if points, version := m.counting.Counted(); version != m.counted && m.admitted() { // they were read before
		origin := ccmap.OriginVM
		if len(points) > 0 && points[0].Origin == ccmap.OriginBurst {
			origin = ccmap.OriginBurst
		}
		m.config.Map.SetPoints(origin, points)
		m.counted, m.stale = version, true
		m.countedSites = 0
		for _, p := range points {
			if p.Kind == ccmap.PointCall {
				m.countedSites++
			}
		}
	}
}

// phasedPoints are the caught calls of the run as profile points, by the phases of the
// program:
//
//	calls ──▶ Profile ──cut──▶ chunk ──assign──▶ all
//
// A look at the latest chunk of samples finds a drift, and the new phase begins with
// that chunk (see phases). So the manager cuts a chunk of calls when it asks for the
// look, and assigns the chunk to a phase after the answer. A phase that ends keeps its
// counts.
//
// The number of points is bounded. If there are too many, all earlier phases become
// one, with a warning in the profile. If there are still too many, the points with the
// fewest calls leave.
type phasedPoints struct {
	limit int           // of all
	all   []ccmap.Point // in order, each once
	chunk []ccmap.Point // cut, and not yet assigned to a phase
	phase uint32        // the present one

	joined uint32 // the first phases, this many, have become one; 0: none

	evicted int   // points that made room for others
	lost    int64 // calls in any context that the evicted points had counted
}

// assign adds the chunk to the present phase, or to a new one.
func (p *phasedPoints) assign(newPhase bool) {
	if newPhase {
		p.phase++
	}
	p.all = ccmap.SumPoints(p.all, p.inPhase(p.chunk))
	p.chunk = nil
	p.makeRoom()
}

// inPhase sets the phase of points to the present one.
func (p *phasedPoints) inPhase(points []ccmap.Point) []ccmap.Point {
	for i := range points {
		points[i].Phase = p.phase
	}
	return points
}

// points returns all points with the latest points. As far as is known these belong to
// the present phase.
func (p *phasedPoints) points(latest []ccmap.Point) []ccmap.Point {
	return ccmap.SumPoints(p.all, p.inPhase(p.chunk), p.inPhase(latest))
}

func (p *phasedPoints) makeRoom() {
	if len(p.all) <= p.limit {
		return
	}
	for i := range p.all {
		if pt := &p.all[i]; pt.Phase != 0 && pt.Phase != p.phase {
			pt.Phase, p.joined = 0, p.phase
		}
	}
	p.all = ccmap.SumPoints(p.all)
	if len(p.all) <= p.limit {
		return
	}
	kept := mostFrequent(p.all, p.limit)
	rarest := p.all[:len(p.all)-len(kept)]
	p.evicted += len(rarest)
	for _, pt := range rarest {
		if pt.Callers == nil {
			p.lost += pt.Count
		}
	}
	p.all = ccmap.SumPoints(kept)
}

// mostFrequent returns the list if it has at most limit points. Otherwise it sorts the list, the rarest
// points first, and returns its end, half as many points as permitted.
func mostFrequent(list []ccmap.Point, limit int) []ccmap.Point {
	if len(list) <= limit {
		return list
	}
	slices.SortFunc(list, fewerCalls)
	return list[len(list)-limit/2:]
}

// pointsOf returns the points of one origin, in a list of their own.
func pointsOf(points []ccmap.Point, o ccmap.Origin) []ccmap.Point {
	var list []ccmap.Point
	for _, p := range points {
		if p.Origin == o {
			list = append(list, p)
		}
	}
	return list
}

// warning says which phases have become one. It is empty if none have.
func (p *phasedPoints) warning() string {
	if p.joined == 0 {
		return ""
	}
	return fmt.Sprintf("caught calls of the phases 1 to %d of the program became one, phase 1: there were too many for the profile", p.joined)
}

// fewerCalls sorts rare points first, and among equals the points in a context before
// the points in any.
func fewerCalls(a, b ccmap.Point) int {
	inAny := func(p ccmap.Point) int {
		if p.Callers == nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(inAny(a), inAny(b)), a.Compare(b))
}

// bytes returns the memory of the points without their callers, which contexts owns.
func (p *phasedPoints) bytes() int {
	n := 0
	for _, list := range [][]ccmap.Point{p.all, p.chunk} {
		for i := range list {
			n += int(unsafe.Sizeof(list[i])) + cap(list[i].Values)*int(unsafe.Sizeof(ccmap.PointValue{}))
		}
	}
	return n
}
