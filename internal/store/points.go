package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Chosen are the points of two profiles of a program, method by method.
type Chosen struct {
	Map          *ccmap.Map // has no contexts: a map is never mixed of two
	Best, Recent int        // methods whose points are of this one
	Stale        int        // methods of the best one whose code is another by now: their points are dropped
}

// ChoosePoints returns for each method the points of the best profile, or of the recent one where that supersedes it:
// if the points have been executed as often, within the noise, and if no larger share of their values was dropped.
// So a tie goes to the later one. Of a method whose code has changed only the recent points count. Points of one
// method are never mixed of two profiles.
func ChoosePoints(best, recent *ccmap.Snapshot) Chosen {
	c := Chosen{Map: ccmap.New(ccmap.Options{})}
	c.Map.Meta().Target, c.Map.Meta().Unit = recent.Meta().Target, recent.Meta().Unit
	before, now := pointsByMethod(best), pointsByMethod(recent)
	for _, name := range sortedNames(before, now) {
		b, r := before[name], now[name]
		switch {
		case isStale(best, recent, name):
			if c.Stale++; len(r) > 0 {
				c.Recent++
				c.add(r, recent, recent)
			}
		case len(b) == 0 || len(r) > 0 && supersedesPoints(r, b):
			c.Recent++
			c.add(r, recent, recent)
		default:
			c.Best++
			c.add(b, best, recent)
		}
	}
	return c
}

// methodName tells methods apart across builds.
type methodName struct{ name, signature string }

func pointsByMethod(s *ccmap.Snapshot) map[methodName][]ccmap.Point {
	all := make(map[methodName][]ccmap.Point)
	for _, p := range ccmap.SumPhases(s.Points()) { // the numbers of phases are a run's own
		m := s.Names().At(p.Method)
		k := methodName{m.Name, m.Signature}
		all[k] = append(all[k], p)
	}
	return all
}

func sortedNames(maps ...map[methodName][]ccmap.Point) (names []methodName) {
	for _, m := range maps {
		for k := range m {
			names = append(names, k)
		}
	}
	slices.SortFunc(names, func(a, b methodName) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.signature, b.signature))
	})
	return slices.Compact(names)
}

// isStale reports whether a method of the best profile has other code in the recent one, as far as both know it.
func isStale(best, recent *ccmap.Snapshot, k methodName) bool {
	b, r := bodyIn(best, k), bodyIn(recent, k)
	return b != 0 && r != 0 && b != r
}

func bodyIn(s *ccmap.Snapshot, k methodName) uint64 {
	id, ok := s.Names().Lookup(k.name, k.signature)
	if !ok {
		return 0
	}
	return s.Names().At(id).Body
}

// supersedesPoints is [Supersedes] for the points of one method.
func supersedesPoints(recent, best []ccmap.Point) bool {
	n := executions(best)
	return executions(recent) >= n-2*math.Sqrt(n) && otherShare(recent) <= otherShare(best)+shareNoise
}

func executions(points []ccmap.Point) (n float64) {
	for _, p := range points {
		n += float64(p.Count)
	}
	return n
}

// add adds points of a profile. Their methods are described as by the recent profile, where that has them.
func (c *Chosen) add(points []ccmap.Point, from, recent *ccmap.Snapshot) {
	of := func(id ccmap.MethodID) ccmap.MethodID {
		m := from.Names().At(id)
		if now, ok := recent.Names().Lookup(m.Name, m.Signature); ok {
			m = recent.Names().At(now)
		}
		return c.Map.Names().Intern(m)
	}
	for _, p := range points {
		p.Method = of(p.Method)
		p.Callers = slices.Clone(p.Callers)
		for i := range p.Callers {
			p.Callers[i].Method = of(p.Callers[i].Method)
		}
		if p.Kind.HasMethods() {
			p.Values = slices.Clone(p.Values)
			for i, v := range p.Values {
				p.Values[i].Value = uint64(of(ccmap.MethodID(v.Value)))
			}
		}
		c.Map.AddPoint(p)
	}
}
