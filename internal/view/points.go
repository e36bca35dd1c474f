package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var pointsQuestion = Question{
	Name:    "points",
	Subject: OfMethods,
	Layout:  pointsLayout,
	IsWhole: true,
	Short:   "List what was counted at single positions of the code",
	Long: `Points lists the profile points of a profile, method by method: counts at single
positions of its code, beside the stacks. Kinds are call, block, branch, switch, type,
thrown (compiled code that the VM threw away) and number (of a variable); origins are
samples, caught calls, imported counts of the program itself, and the profile that its VM
keeps, which is frozen where compiled code no longer counts.

Calls whose callers are known stand with them (←, the innermost first); others are of
any callers. The method with the highest count comes first, and in it what comes first
in the source; --sort count orders points alone, --sort name methods by name. METHOD
is a name, or as much of its end as is unique. docs/receivers.md explains kinds, values
and phases, docs/formats.md the JSON.`,
	Example: `  ccmapd points web.json
  ccmapd points web.json Server.handle           those of one method
  ccmapd points --kind branch --sort count web.json
  ccmapd points --json --origin imported web.json | jq '.points[] | select(.count == 0)'`,
	New: func() *Form {
		l := PointsList{Values: 5}
		var only phase
		return &Form{
			Params: listParams(&l.List, 20, pointsLayout,
				Param{Name: "kind", Value: &l.Kind, Words: pointKinds(), Help: "list points of one `KIND`: " + terminal.OrList(pointKinds())},
				Param{Name: "origin", Value: &l.Origin, Words: pointOrigins(), Help: "list points of one `ORIGIN`: " + terminal.OrList(pointOrigins())},
				Param{Name: "values", Value: &l.Values, OnlyText: true, Help: "list at most `N` values of a point, and the others as one; 0: all"},
				phaseParam(&only)),
			Answer: ofMethods(&l.List, func(p *Profile) (View, error) {
				if err := only.use(p); err != nil {
					return nil, err
				}
				return NewPoints(p, l)
			}),
		}
	},
}

// Orders of the points in [Points].
const (
	ByMethod = "method" // methods by their highest count, and their points by line
	ByCount  = "count"
)

var pointsLayout = layout("count share point location kind origin",
	"count share point location kind origin", pointsColumns.list(""), ByMethod, ByCount, ByName)

// pointKinds has the words for PointsList.Kind.
func pointKinds() []string {
	var names []string
	for k := ccmap.PointCall; k <= ccmap.PointNumber; k++ {
		names = append(names, k.String())
	}
	return names
}

// pointOrigins has the words for PointsList.Origin.
func pointOrigins() []string {
	var names []string
	for o := ccmap.OriginSampled; o <= ccmap.OriginVM; o++ {
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
	if l.Order, err = pointsLayout.order(l.List); err != nil {
		return nil, err
	}
	all := p.allPoints()
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

// allPoints returns all points of a profile, in no order. It makes the points of samples from
// the map, which has the exact samples of every call, and ignores those in the file: files
// of earlier versions hold some.
func (p *Profile) allPoints() []ccmap.Point {
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
	s := newSheet(v.profile, pointsLayout, o)
	for _, q := range v.Rows {
		v.addPoint(s, q)
	}
	return s.print(w, v.More, v.note)
}

// addPoint adds a point, its callers and its values.
func (v *Points) addPoint(s *sheet, q ccmap.Point) {
	names := v.profile.Names()
	addRow(s, pointColumns, q)
	if q.Callers != nil && len(q.Callers) == 0 {
		s.add(cells{"point": "  ← nobody: where the stack begins"})
	}
	for _, c := range q.Callers {
		s.add(cells{"point": "  ← " + v.profile.title(names.At(c.Method)), "location": formatLocation(names, c)})
	}
	values := valuesOf(names, q)
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
	col("", "hidden_points", "points that the limit left out", func(v *Points) count { return count(v.More) }),
}

var pointColumns = append(
	inline(placeColumns.named("point", "", "location"), func(p *Profile, q ccmap.Point) *place {
		at := calledAt(p.Names(), ccmap.Frame{Method: q.Method, Offset: q.Offset})
		at.location = formatLines(p.Names(), q)
		return at
	}),
	colIn("", "end_line,omitempty", "of a block or branch", func(p *Profile, q ccmap.Point) int32 {
		if q.Kind != ccmap.PointBlock && q.Kind != ccmap.PointBranch {
			return 0
		}
		return p.Names().Line(ccmap.Frame{Method: q.Method, Offset: q.End})
	}),
	col("kind", "kind", "call, block, branch, switch, type, thrown or number", func(q ccmap.Point) string { return q.Kind.String() }),
	col("origin", "origin", "where the counts come from", func(q ccmap.Point) string { return q.Origin.String() }).
		printed(func(_ *Profile, q ccmap.Point) string { return originOf(q) }),
	col("", "frozen,omitempty", "the source stopped to count, as a VM does when it has compiled the method", func(q ccmap.Point) bool { return q.Frozen }),
	array("callers,omitempty", "innermost first, if they are known; empty, but there: the method begins the stack", placeColumns,
		func(p *Profile, q ccmap.Point) []place { return chainOf(p.Names(), q.Callers) }),
	col("count", "count", "calls, or times that the code ran", func(q ccmap.Point) count { return count(q.Count) }),
	array("values,omitempty", "the most frequent first", pointValueColumns, func(p *Profile, q ccmap.Point) []pointValue { return valuesOf(p.Names(), q) }),
	col("", "others,omitempty", "count of values without a counter of their own", func(q ccmap.Point) count { return count(q.Other) }),
	col("", "aged,omitempty", "count of values that were forgotten", func(q ccmap.Point) count { return count(q.Aged) }),
	col("", "nulls,omitempty", "count of null receivers, if the source sees them; -2: it has seen some, and not counted them", func(q ccmap.Point) *int64 { return given(q.Nulls, q.Nulls != ccmap.NullsUnknown) }),
)

// pointValue is a value of a point, or in text a count of several values.
type pointValue struct {
	name, location string // in text
	value          string // in JSON: of a branch, switch or number
	target         *place // of a call
	count          int64
	share          percent
}

var pointValueColumns = slices.Concat(
	columns[pointValue]{col("location", "value,omitempty", "taken or untaken, the line of a case, or a number; in text, also where a called method is declared", func(v pointValue) string { return v.value }).
		printed(func(_ *Profile, v pointValue) string { return v.location })},
	inline(placeColumns, func(_ *Profile, v pointValue) *place { return v.target }),
	columns[pointValue]{
		col("count", "count", "times that the point had the value", func(v pointValue) count { return count(v.count) }),
		col("share", "share_percent", "share of the point", func(v pointValue) percent { return v.share }),
		col("point", "", "the value", func(v pointValue) string { return "  → " + v.name }),
	},
)

// valuesOf returns the values of a point, the most frequent first.
func valuesOf(names *ccmap.Names, q ccmap.Point) []pointValue {
	var list []pointValue
	for _, v := range shownValues(q) {
		out := pointValue{count: v.Count, share: percent(figure.Share(v.Count, q.Count))}
		switch at := (ccmap.Frame{Method: q.Method, Offset: uint32(v.Value)}); {
		case q.Kind.HasMethods():
			m := names.At(ccmap.MethodID(v.Value))
			out.target, out.name, out.location = declaredAt(m), methodTitle(m), formatDeclaration(m)
		case q.Kind == ccmap.PointSwitch:
			out.name, out.location, out.value = "case", formatLocation(names, at), strings.TrimPrefix(formatCall(names, at), ":")
		case q.Kind == ccmap.PointNumber:
			out.value = strconv.FormatInt(int64(v.Value), 10)
			out.name = out.value
		case v.Value == ccmap.BranchTaken:
			out.name, out.value = "taken", "taken"
		default:
			out.name, out.value = "untaken", "untaken"
		}
		list = append(list, out)
	}
	return list
}

// otherValues returns the counts of a point that belong to no value of its own.
func otherValues(q ccmap.Point) []pointValue {
	others := "others"
	if q.Kind == ccmap.PointSwitch && q.Origin == ccmap.OriginImported {
		others = "none"
	}
	var list []pointValue
	for _, v := range []pointValue{{name: others, count: q.Other}, {name: "aged", count: q.Aged}, {name: "null", count: q.Nulls}} {
		if v.share = percent(figure.Share(v.count, q.Count)); v.count > 0 {
			list = append(list, v)
		}
	}
	if q.Nulls == ccmap.NullsSeen {
		list = append(list, pointValue{name: "null, seen but not counted"})
	}
	return list
}

// originOf returns the origin of a point, in text with a word for counts that have stopped.
func originOf(q ccmap.Point) string {
	if q.Frozen {
		return q.Origin.String() + ", frozen"
	}
	return q.Origin.String()
}

// sumOf adds up values that there is no room for.
func sumOf(values []pointValue) pointValue {
	sum := pointValue{name: fmt.Sprintf("%s %d more", terminal.Ellipsis, len(values))}
	for _, v := range values {
		sum.count += v.count
		sum.share += v.share
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

// JSON describes the profile and lists the points, with all values.
func (v *Points) JSON() any { return pointsColumns.json(v.profile, v) }
