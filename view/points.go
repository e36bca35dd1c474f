package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Orders of the points in [Points].
const (
	ByMethod = "method" // methods by their highest count, and their points by line
	ByCount  = "count"
)

// PointsLayout returns the orders and columns of [Points].
func PointsLayout() Layout {
	return Layout{
		Orders:  []string{ByMethod, ByCount, ByName},
		First:   words("count share point location kind origin"),
		All:     words("count share point location kind origin"),
		Columns: pointsColumns.list(""),
	}
}

// PointKinds has the words for PointsList.Kind.
func PointKinds() []string {
	var names []string
	for k := ccmap.PointCall; k <= ccmap.PointSwitch; k++ {
		names = append(names, k.String())
	}
	return names
}

// PointOrigins has the words for PointsList.Origin.
func PointOrigins() []string {
	var names []string
	for o := ccmap.OriginSampled; o <= ccmap.OriginImported; o++ {
		names = append(names, o.String())
	}
	return names
}

// PointsList says which points are listed, and how much of each. A window has no points:
// they are of whole runs.
type PointsList struct {
	List
	Kind   string // only points of this kind; empty: of any
	Origin string // only points of this origin; empty: of any
	Values uint   // values of a point in text; 0: all
}

// Points lists the profile points of a profile.
type Points struct {
	Rows    []ccmap.Point // those to be shown
	More    int           // points that were cut
	list    PointsList
	profile *Profile
	note    string
}

// NewPoints lists points in the methods of a list. The error says that there is no such
// order.
func NewPoints(p *Profile, l PointsList) (*Points, error) {
	var err error
	if l.Order, err = PointsLayout().order(l.List); err != nil {
		return nil, err
	}
	all := p.AllPoints()
	found := l.find(p, slices.Clone(all))
	rows := cut(found, l.Limit)
	return &Points{rows, len(found) - len(rows), l, p, pointsNote(p, found, len(all))}, nil
}

// find returns the points that are asked for, in order. It changes the slice.
func (l PointsList) find(p *Profile, points []ccmap.Point) []ccmap.Point {
	points = slices.DeleteFunc(points, func(q ccmap.Point) bool {
		return l.Methods != nil && !l.Methods.Has(q.Method) ||
			l.Kind != "" && q.Kind.String() != l.Kind ||
			l.Origin != "" && q.Origin.String() != l.Origin
	})
	highest := make(map[ccmap.MethodID]int64)
	for _, q := range points {
		highest[q.Method] = max(highest[q.Method], q.Count)
	}
	slices.SortFunc(points, func(a, b ccmap.Point) int {
		order := 0
		switch l.Order {
		case ByMethod:
			order = cmp.Compare(highest[b.Method], highest[a.Method])
		case ByCount:
			order = cmp.Compare(b.Count, a.Count)
		}
		return cmp.Or(order, query.Compare(p.Names(), a.Method, b.Method), inSource(a, b))
	})
	return points
}

// AllPoints returns all points of a profile, in no order. It makes the points of samples from
// the map, which has the exact samples of every call, and ignores those in the file: files
// of earlier versions hold some.
func (p *Profile) AllPoints() []ccmap.Point {
	points := slices.DeleteFunc(slices.Clone(p.countedPoints()), func(q ccmap.Point) bool {
		return q.Origin == ccmap.OriginSampled && q.Kind == ccmap.PointCall
	})
	if !p.countsSamples() {
		return points
	}
	for _, site := range p.pollution().Sites(nil) {
		if q, ok := site.SampledPoint(); ok {
			points = append(points, q)
		}
	}
	return points
}

// inSource orders the points of a method as they stand in its source. A point comes before
// the points that it encloses.
func inSource(a, b ccmap.Point) int {
	return cmp.Or(
		cmp.Compare(int32(a.Offset), int32(b.Offset)),
		cmp.Compare(int32(b.End), int32(a.End)),
		a.Compare(b),
	)
}

// pointsNote says how many points there are, or why the list is empty.
func pointsNote(p *Profile, found []ccmap.Point, all int) string {
	methods := make(map[ccmap.MethodID]bool)
	for _, q := range found {
		methods[q.Method] = true
	}
	switch {
	case len(found) > 0:
		return fmt.Sprintf("%s of %s%s", figure.Plural(int64(len(found)), "point"), figure.Plural(int64(len(methods)), "method"), p.ofPhase())
	case all > 0:
		return "no such point, of " + figure.Plural(int64(all), "point")
	}
	return "no points" + p.hint(HintPoints, ": ")
}

// Text prints a table of points, the callers and the values below each.
func (v *Points) Text(w io.Writer, o TextOptions) error {
	s, err := newSheet(v.profile, PointsLayout(), o)
	if err != nil {
		return err
	}
	for _, q := range v.Rows {
		v.addPoint(s, q)
	}
	return s.print(w, o, v.More, v.note)
}

// addPoint adds a point, its callers and its values.
func (v *Points) addPoint(s *sheet, q ccmap.Point) {
	names := v.profile.Names()
	addRow(s, pointColumns, q)
	if q.Callers != nil && len(q.Callers) == 0 {
		s.add(cells{"point": "  ← nobody: where the stack begins"})
	}
	for _, c := range q.Callers {
		s.add(cells{"point": "  ← " + methodTitle(names.At(c.Method)), "location": formatLocation(names, c)})
	}
	values := valuesOf(q)
	shown := cut(values, v.list.Values)
	for _, value := range shown {
		addRow(s, pointValueColumns, value)
	}
	if rest := values[len(shown):]; len(rest) > 0 {
		addRow(s, pointValueColumns, sumOf(rest))
	}
	for _, value := range otherValues(q) {
		addRow(s, pointValueColumns, value)
	}
}

var pointsColumns = columns[*Points]{
	profileMember(func(v *Points) *Profile { return v.profile }),
	array("points", "the profile points", pointColumns, func(_ *Profile, v *Points) []ccmap.Point { return v.Rows }),
	col("", "hidden_points", "points that the limit left out", func(_ *Profile, v *Points) count { return count(v.More) }),
}

var pointColumns = append(
	inline(placeColumns.named("point", "", "location"), func(p *Profile, q ccmap.Point) *place {
		at := calledAt(p.Names(), ccmap.Frame{Method: q.Method, Offset: q.Offset})
		at.location = formatLines(p.Names(), q)
		return at
	}),
	col("", "end_line,omitempty", "of a block or branch", func(p *Profile, q ccmap.Point) int32 {
		if q.Kind != ccmap.PointBlock && q.Kind != ccmap.PointBranch {
			return 0
		}
		return p.Names().Line(ccmap.Frame{Method: q.Method, Offset: q.End})
	}),
	col("kind", "kind", "call, block, branch or switch", func(_ *Profile, q ccmap.Point) string { return q.Kind.String() }),
	col("origin", "origin", "where the counts come from", func(_ *Profile, q ccmap.Point) string { return q.Origin.String() }),
	array("callers,omitempty", "innermost first, if they are known; empty, but there: the method begins the stack", placeColumns,
		func(p *Profile, q ccmap.Point) []place { return chainOf(p.Names(), q.Callers) }),
	col("count", "count", "calls, or times that the code ran", func(_ *Profile, q ccmap.Point) count { return count(q.Count) }),
	array("values,omitempty", "the most frequent first", pointValueColumns, func(_ *Profile, q ccmap.Point) []pointValue { return valuesOf(q) }),
	col("", "others,omitempty", "count of values without a counter of their own", func(_ *Profile, q ccmap.Point) count { return count(q.Other) }),
	col("", "aged,omitempty", "count of values that were forgotten", func(_ *Profile, q ccmap.Point) count { return count(q.Aged) }),
	col("", "nulls,omitempty", "count of null receivers, if the source sees them", func(_ *Profile, q ccmap.Point) *int64 {
		if q.Nulls == ccmap.NullsUnknown {
			return nil
		}
		return &q.Nulls
	}),
)

// pointValue is a value of a point, or in text a count of several values.
type pointValue struct {
	point ccmap.Point
	value uint64
	count int64
	label string // of a count of several values
}

var pointValueColumns = slices.Concat(
	columns[pointValue]{col("location", "value,omitempty", "taken or untaken, or the place of a case; in text, also the place of a called method", func(p *Profile, v pointValue) string { return v.name(p.Names()) }).
		printed(func(p *Profile, v pointValue) string { return v.location(p.Names()) })},
	inline(placeColumns, func(p *Profile, v pointValue) *place { return v.target(p.Names()) }),
	columns[pointValue]{
		col("count", "count", "times that the point had the value", func(_ *Profile, v pointValue) count { return count(v.count) }),
		col("share", "share_percent", "share of the point", func(_ *Profile, v pointValue) percent { return percent(figure.Share(v.count, v.point.Count)) }),
		col("point", "", "the value", func(p *Profile, v pointValue) string { return "  → " + v.title(p.Names()) }),
	},
)

// valuesOf returns the values of a point, the most frequent first.
func valuesOf(q ccmap.Point) []pointValue {
	var list []pointValue
	for _, v := range shownValues(q) {
		list = append(list, pointValue{q, v.Value, v.Count, ""})
	}
	return list
}

// otherValues returns the counts of a point that belong to no value of its own.
func otherValues(q ccmap.Point) []pointValue {
	others := "others"
	if q.Kind == ccmap.PointSwitch {
		others = "none"
	}
	list := []pointValue{{q, 0, q.Other, others}, {q, 0, q.Aged, "aged"}, {q, 0, q.Nulls, "null"}}
	return slices.DeleteFunc(list, func(v pointValue) bool { return v.count <= 0 })
}

// sumOf adds up values that there is no room for.
func sumOf(values []pointValue) pointValue {
	sum := pointValue{point: values[0].point, label: fmt.Sprintf("%s %d more", terminal.Ellipsis, len(values))}
	for _, v := range values {
		sum.count += v.count
	}
	return sum
}

// shownValues returns the values of a point. A branch shows both, though one of them may
// never have been seen.
func shownValues(q ccmap.Point) []ccmap.PointValue {
	if q.Kind != ccmap.PointBranch || len(q.Values) != 1 {
		return q.Values
	}
	return []ccmap.PointValue{q.Values[0], {Value: ccmap.BranchTaken - q.Values[0].Value}}
}

// target returns the method that a call has reached, or nil.
func (v pointValue) target(names *ccmap.Names) *place {
	if v.point.Kind != ccmap.PointCall {
		return nil
	}
	return declaredAt(names.At(ccmap.MethodID(v.value)))
}

// name returns the value of a branch or switch.
func (v pointValue) name(names *ccmap.Names) string {
	switch v.point.Kind {
	case ccmap.PointCall:
		return ""
	case ccmap.PointSwitch:
		return strings.TrimPrefix(formatCall(names, ccmap.Frame{Method: v.point.Method, Offset: uint32(v.value)}), ":")
	}
	if v.value == ccmap.BranchTaken {
		return "taken"
	}
	return "untaken"
}

// title prints the value.
func (v pointValue) title(names *ccmap.Names) string {
	switch {
	case v.label != "":
		return v.label
	case v.point.Kind == ccmap.PointCall:
		return methodTitle(names.At(ccmap.MethodID(v.value)))
	case v.point.Kind == ccmap.PointSwitch:
		return "case"
	}
	return v.name(names)
}

// location prints where the called method is declared, or where a case is.
func (v pointValue) location(names *ccmap.Names) string {
	switch {
	case v.label != "":
		return ""
	case v.point.Kind == ccmap.PointCall:
		return formatDeclaration(names.At(ccmap.MethodID(v.value)))
	case v.point.Kind == ccmap.PointSwitch:
		return formatLocation(names, ccmap.Frame{Method: v.point.Method, Offset: uint32(v.value)})
	}
	return ""
}

// JSON describes the profile and lists the points, with all values.
func (v *Points) JSON() any { return pointsColumns.json(v.profile, v) }
