package main

import (
	"fmt"
	"iter"
	"maps"
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/view"
)

// mix is how often a call reached what, by the names of the methods.
type mix map[string]int64

func (m mix) total() int64 {
	var n int64
	for _, count := range m {
		n += count
	}
	return n
}

// percent returns the share of a method.
func (m mix) percent(name string) float64 { return 100 * float64(m[name]) / float64(max(m.total(), 1)) }

// minus returns what was counted after an earlier count.
func (m mix) minus(earlier mix) mix {
	since := make(mix)
	for name, n := range m {
		if n > earlier[name] {
			since[name] = n - earlier[name]
		}
	}
	return since
}

// union returns the names of both mixes.
func (m mix) union(other mix) iter.Seq[string] {
	all := maps.Clone(m)
	maps.Copy(all, other)
	return maps.Keys(all)
}

// furthest returns how far a share is from the expected one at most, in points.
func (m mix) furthest(want mix) (points float64) {
	for name := range m.union(want) {
		points = max(points, math.Abs(m.percent(name)-want.percent(name)))
	}
	return points
}

// differs lists the shares of a mix that are further from the expected ones than
// the tolerance, in points, and what chance explains: four standard deviations of
// counts so small, of both.
func (m mix) differs(want mix, tolerance float64) (wrong []string) {
	for name := range m.union(want) {
		got, expected := m.percent(name), want.percent(name)
		variance := expected * (100 - expected)
		chance := 4 * math.Sqrt(variance/float64(max(m.total(), 1))+variance/float64(max(want.total(), 1)))
		if math.Abs(got-expected) > tolerance+chance {
			wrong = append(wrong, fmt.Sprintf("%s has %.2f %%, want %.2f ± %.2f", name, got, expected, tolerance+chance))
		}
	}
	return wrong
}

// call is where a call stands. Line 0 is any line of the method.
type call struct {
	method string
	line   int32
}

// reached adds up what the points of one origin say of a call, in any context, by
// the name that a method goes by.
func reached(s *ccmap.Snapshot, origin ccmap.Origin, at call, by func(ccmap.Method) string) mix {
	return reachedIn(view.New("", s), origin, at, by)
}

// reachedIn is reached in the phases that were chosen of a profile.
func reachedIn(s *view.Profile, origin ccmap.Origin, at call, by func(ccmap.Method) string) mix {
	m := make(mix)
	points, err := view.NewPoints(s, view.PointsList{})
	if err != nil {
		panic(err) // fails by unknown orders only
	}
	for _, p := range points.Rows {
		caller := s.Names().At(p.Method)
		if p.Origin != origin || p.Kind != ccmap.PointCall || p.Callers != nil || caller.Name != at.method ||
			at.line != 0 && caller.StartLine+int32(p.Offset) != at.line {
			continue
		}
		for _, v := range p.Values {
			m[by(s.Names().At(ccmap.MethodID(v.Value)))] += v.Count
		}
		if rest := p.Other + p.Aged; rest > 0 {
			m["other"] += rest
		}
	}
	return m
}

func byName(m ccmap.Method) string { return m.Name }
