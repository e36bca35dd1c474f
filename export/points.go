package export

import (
	"iter"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// hasPoint reports whether a format has a place for the point.
func (f Format) hasPoint(p *ccmap.Point) bool {
	switch f {
	case XML, JSON:
		return true
	case Pprof:
		return p.Origin == ccmap.OriginBurst && p.Kind == ccmap.PointCall
	}
	return false
}

// pointsFor returns the points of a snapshot that a format has a place for.
func pointsFor(s *ccmap.Snapshot, f Format) []ccmap.Point {
	points := s.Points()
	if f == Pprof {
		points = ccmap.SumPhases(points)
	}
	return slices.DeleteFunc(slices.Clone(points), func(p ccmap.Point) bool { return !f.hasPoint(&p) })
}

// rankPoints gives the points indices of methods for their ids, and the order
// that those have.
func (c *canonical) rankPoints() {
	for i := range c.points {
		p := &c.points[i]
		p.Method = c.rankOf(p.Method)
		p.Callers, p.Values = slices.Clone(p.Callers), slices.Clone(p.Values)
		for j := range p.Callers {
			p.Callers[j].Method = c.rankOf(p.Callers[j].Method)
		}
		if p.Kind != ccmap.PointCall {
			continue
		}
		for j := range p.Values {
			p.Values[j].Value = uint64(c.rankOf(ccmap.MethodID(p.Values[j].Value)))
		}
		slices.SortFunc(p.Values, ccmap.PointValue.Compare)
	}
	slices.SortFunc(c.points, ccmap.Point.Compare)
}

func (c *canonical) rankOf(id ccmap.MethodID) ccmap.MethodID { return ccmap.MethodID(c.rank[id]) }

// pointMethods returns the methods that a point names.
func pointMethods(p *ccmap.Point) iter.Seq[ccmap.MethodID] {
	return func(yield func(ccmap.MethodID) bool) {
		if !yield(p.Method) {
			return
		}
		for _, f := range p.Callers {
			if !yield(f.Method) {
				return
			}
		}
		for _, v := range p.Values {
			if p.Kind == ccmap.PointCall && !yield(ccmap.MethodID(v.Value)) {
				return
			}
		}
	}
}

// pointNumbers appends what is not left out of a ranked point, without its origin,
// kind, context and values.
func pointNumbers(to []number, p *ccmap.Point) []number {
	to = appendFrame(to, ccmap.Frame{Method: p.Method, Offset: p.Offset})
	if p.End != p.Offset {
		to = append(to, number{"end", int64(int32(p.End))})
	}
	to = appendPresent(to, number{"phase", int64(p.Phase)})
	to = append(to, number{"count", p.Count})
	to = appendPresent(to, number{"other", p.Other}, number{"aged", p.Aged})
	if p.Nulls != ccmap.NullsUnknown {
		to = append(to, number{"nulls", p.Nulls})
	}
	return to
}

// appendFrame appends what is not left out of a frame whose method has an index.
func appendFrame(to []number, f ccmap.Frame) []number {
	to = append(to, number{"method", int64(f.Method)})
	if f.Offset != ccmap.NoOffset {
		to = append(to, number{"offset", int64(int32(f.Offset))})
	}
	return to
}

func appendValue(to []number, v ccmap.PointValue) []number {
	return append(to, number{"value", int64(v.Value)}, number{"count", v.Count})
}
