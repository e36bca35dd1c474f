package ccmap

import (
	"cmp"
	"slices"
)

// normalPoint returns p as maps keep points, see [Map.AddPoint]. What p refers to
// may be shared: it is not written to.
func (m *Map) normalPoint(p Point) Point {
	methods := m.names.Len()
	p.Method = m.known(p.Method, methods)
	p.Callers = m.normalContext(p.Callers, methods)
	if p.Kind == PointCall || p.Kind == PointSwitch {
		p.End = p.Offset
	}
	if p.Kind == PointBlock {
		p.Values, p.Other, p.Aged = nil, 0, 0
	}
	if p.Nulls = max(p.Nulls, NullsUnknown); p.Kind != PointCall {
		p.Nulls = min(p.Nulls, 0)
	}
	p.Values = m.normalValues(p.Kind, p.Values, methods)
	p.Count, p.Other, p.Aged = max(p.Count, 0), max(p.Other, 0), max(p.Aged, 0)
	if p.KnowsValues() {
		p.Count = p.sum()
	}
	return p
}

func (m *Map) normalContext(callers []Frame, methods int) []Frame {
	callers = callers[:min(len(callers), MaxPointCallers)]
	for i, f := range callers {
		if id := m.known(f.Method, methods); id != f.Method {
			callers = slices.Clone(callers)
			callers[i].Method = id
		}
	}
	return callers
}

// normalValues returns the values that a point of this kind can have.
func (m *Map) normalValues(k PointKind, values []PointValue, methods int) []PointValue {
	values = slices.Clone(values)
	for i := range values {
		v := &values[i]
		v.Count = max(v.Count, 0)
		switch k {
		case PointCall:
			v.Value = uint64(m.known(MethodID(min(v.Value, uint64(NoMethod))), methods))
		case PointBranch:
			v.Value = min(v.Value, 1)
		}
	}
	return sumValues(values)
}

// sumValues adds up the counts of each value, in place, and puts the values into
// their order.
func sumValues(values []PointValue) []PointValue {
	slices.SortFunc(values, func(a, b PointValue) int { return cmp.Compare(a.Value, b.Value) })
	sums := values[:0]
	for _, v := range values {
		if last := len(sums) - 1; last >= 0 && sums[last].Value == v.Value {
			sums[last].Count = addSaturated(sums[last].Count, v.Count)
		} else {
			sums = append(sums, v)
		}
	}
	sums = slices.DeleteFunc(sums, func(v PointValue) bool { return v.Count == 0 })
	slices.SortFunc(sums, PointValue.Compare)
	if len(sums) == 0 {
		return nil
	}
	return slices.Clip(sums)
}

// sumPoints adds up what the same point counts, at least once. What the points
// refer to may be shared: it is not written to.
func sumPoints(same []*Point) Point {
	sum := *same[0]
	if len(same) == 1 {
		return sum
	}
	var values []PointValue
	sum.Count, sum.Other, sum.Aged, sum.Nulls = 0, 0, 0, NullsUnknown
	untold := int64(0) // counts without values
	for _, p := range same {
		if !p.KnowsValues() {
			untold = addSaturated(untold, p.Count)
		}
		values = append(values, p.Values...)
		sum.Count = addSaturated(sum.Count, p.Count)
		sum.Other = addSaturated(sum.Other, p.Other)
		sum.Aged = addSaturated(sum.Aged, p.Aged)
		sum.Nulls = addNulls(sum.Nulls, p.Nulls)
	}
	sum.Values = sumValues(values)
	if sum.KnowsValues() {
		sum.Other = addSaturated(sum.Other, untold)
	}
	return sum
}

// addNulls adds up what is known of null receivers.
func addNulls(a, b int64) int64 {
	if a == NullsUnknown || b == NullsUnknown {
		return max(a, b)
	}
	return addSaturated(a, b)
}

// sum returns what p counts by value.
func (p *Point) sum() int64 {
	n := addSaturated(addSaturated(p.Other, p.Aged), max(p.Nulls, 0))
	for _, v := range p.Values {
		n = addSaturated(n, v.Count)
	}
	return n
}
