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

// PointsOrders has the orders of [Points].
func PointsOrders() []string { return []string{ByMethod, ByCount, ByName} }

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
	rows    []ccmap.Point
	hidden  int // points that were cut
	list    PointsList
	profile *Profile
	note    string
}

// NewPoints lists points in the methods of a list.
func NewPoints(p *Profile, l PointsList) *Points {
	all := p.AllPoints()
	found := l.find(p, slices.Clone(all))
	v := &Points{rows: cut(found, l.Limit), list: l, profile: p, note: pointsNote(p, found, len(all))}
	v.hidden = len(found) - len(v.rows)
	return v
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
	return "no points: 'attach' and 'run' count the methods that calls reach, 'convert --coverage' adds\n" +
		"counts of blocks and branches, and the formats xml and json keep them all"
}

// Text prints a table of points, the callers and the values below each.
func (v *Points) Text(w io.Writer, wide bool) error {
	t := pointsTable{names: v.profile.Names(), values: v.list.Values}
	t.Columns = []terminal.Column{
		{Title: "count", Right: true},
		{Title: "share", Right: true, Drop: 1},
		nameColumn("point"), locationColumn(0),
		{Title: "kind"},
		{Title: "origin", Drop: 2},
	}
	for _, q := range v.rows {
		t.addPoint(q)
	}
	return v.profile.print(terminal.NewPrinter(w, wide), &t.Table, v.hidden, v.note)
}

// pointsTable is the text of a list of points.
type pointsTable struct {
	terminal.Table
	names  *ccmap.Names
	values uint
}

// addPoint adds a point, its callers and its values.
func (t *pointsTable) addPoint(q ccmap.Point) {
	t.Add(figure.Count(q.Count), "", methodTitle(t.names.At(q.Method)), formatLines(t.names, q), q.Kind.String(), q.Origin.String())
	if q.Callers != nil && len(q.Callers) == 0 {
		t.Add("", "", "  ← nobody: where the stack begins")
	}
	for _, c := range q.Callers {
		t.Add("", "", "  ← "+methodTitle(t.names.At(c.Method)), formatLocation(t.names, c))
	}
	values := namedValues(t.names, q)
	shown := cut(values, t.values)
	for _, v := range shown {
		t.addValue(q, v)
	}
	if rest := values[len(shown):]; len(rest) > 0 {
		t.addValue(q, sumOf(rest))
	}
	for _, v := range otherValues(q) {
		t.addValue(q, v)
	}
}

func (t *pointsTable) addValue(q ccmap.Point, v pointValue) {
	t.Add(figure.Count(v.count), figure.Percent(figure.Share(v.count, q.Count)), "  → "+v.name, v.location)
}

// pointValue is a value of a point as it is printed.
type pointValue struct {
	name     string
	location string
	count    int64
}

// namedValues returns the known values of a point, the most frequent first.
func namedValues(names *ccmap.Names, q ccmap.Point) []pointValue {
	var list []pointValue
	for _, v := range shownValues(q) {
		list = append(list, namedValue(names, q, v))
	}
	return list
}

// otherValues returns the counts of a point that belong to no value of its own.
func otherValues(q ccmap.Point) []pointValue {
	others := "others"
	if q.Kind == ccmap.PointSwitch {
		others = "none"
	}
	list := []pointValue{{others, "", q.Other}, {"aged", "", q.Aged}, {"null", "", q.Nulls}}
	return slices.DeleteFunc(list, func(v pointValue) bool { return v.count <= 0 })
}

// sumOf adds up values that there is no room for.
func sumOf(values []pointValue) pointValue {
	sum := pointValue{name: fmt.Sprintf("%s %d more", terminal.Ellipsis, len(values))}
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

func namedValue(names *ccmap.Names, q ccmap.Point, v ccmap.PointValue) pointValue {
	switch q.Kind {
	case ccmap.PointCall:
		target := names.At(ccmap.MethodID(v.Value))
		return pointValue{methodTitle(target), formatDeclaration(target), v.Count}
	case ccmap.PointSwitch:
		return pointValue{"case", formatLocation(names, ccmap.Frame{Method: q.Method, Offset: uint32(v.Value)}), v.Count}
	}
	return pointValue{branchName(v.Value), "", v.Count}
}

func branchName(value uint64) string {
	if value == ccmap.BranchTaken {
		return "taken"
	}
	return "untaken"
}

type pointJSON struct {
	NameJSON
	EndLine int32            `json:"end_line,omitempty"` // of a block or branch
	Kind    string           `json:"kind"`
	Origin  string           `json:"origin"`
	Callers []NameJSON       `json:"callers,omitzero"` // empty, but there: the method begins the stack
	Count   int64            `json:"count"`
	Values  []pointValueJSON `json:"values,omitempty"`
	Others  int64            `json:"others,omitempty"`
	Aged    int64            `json:"aged,omitempty"`
	Nulls   *int64           `json:"nulls,omitempty"` // if the source sees them
}

type pointValueJSON struct {
	Value        string  `json:"value,omitempty"` // of a branch or switch
	*NameJSON            // that was called
	Count        int64   `json:"count"`
	SharePercent float64 `json:"share_percent"`
}

// JSON describes the profile and lists the points, with all values.
func (v *Points) JSON() any {
	out := struct {
		Profile ProfileJSON `json:"profile"`
		Points  []pointJSON `json:"points"`
		Hidden  int         `json:"hidden_points"`
	}{v.profile.JSON(), make([]pointJSON, len(v.rows)), v.hidden}
	for i, q := range v.rows {
		out.Points[i] = onePointJSON(v.profile.Names(), q)
	}
	return out
}

func onePointJSON(names *ccmap.Names, q ccmap.Point) pointJSON {
	out := pointJSON{
		NameJSON: callJSON(names, ccmap.Frame{Method: q.Method, Offset: q.Offset}), Kind: q.Kind.String(), Origin: q.Origin.String(),
		Count: q.Count, Others: q.Other, Aged: q.Aged,
	}
	if q.Kind == ccmap.PointBlock || q.Kind == ccmap.PointBranch {
		out.EndLine = names.Line(ccmap.Frame{Method: q.Method, Offset: q.End})
	}
	if q.Callers != nil {
		out.Callers = callersJSON(names, q.Callers)
	}
	if q.Nulls != ccmap.NullsUnknown {
		out.Nulls = &q.Nulls
	}
	for _, v := range shownValues(q) {
		out.Values = append(out.Values, valueJSON(names, q, v))
	}
	return out
}

func valueJSON(names *ccmap.Names, q ccmap.Point, v ccmap.PointValue) pointValueJSON {
	out := pointValueJSON{Count: v.Count, SharePercent: figure.Share(v.Count, q.Count)}
	switch q.Kind {
	case ccmap.PointCall:
		target := nameJSON(names.At(ccmap.MethodID(v.Value)))
		out.NameJSON = &target
	case ccmap.PointSwitch:
		out.Value = strings.TrimPrefix(formatCall(names, ccmap.Frame{Method: q.Method, Offset: uint32(v.Value)}), ":")
	default:
		out.Value = branchName(v.Value)
	}
	return out
}
