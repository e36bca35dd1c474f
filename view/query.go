package view

import (
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// QueryOrders has the orders of [Query].
func QueryOrders() []string { return []string{ByTime, BySamples, ByActivations, ByName} }

// Query shows the count of a path of calls, its callers and its callees.
type Query struct {
	*query.Query
	query.Result
	profile *Profile
	limit   uint
}

// NewQuery counts the path of a query, which was made for the snapshot of the profile. The
// order and the limit of the list are for the callers, and for the callees.
func NewQuery(p *Profile, q *query.Query, l List) *Query {
	v := &Query{q, q.Count(), p, l.Limit}
	if l.Order != ByName {
		for _, rows := range [][]query.Neighbour{v.Callers, v.Callees} {
			slices.SortStableFunc(rows, func(a, b query.Neighbour) int { return p.measure.hotter(l.Order, a.Total, b.Total) })
		}
	}
	return v
}

// Text prints the path in the middle, its callers above and its callees below.
func (v *Query) Text(w io.Writer, wide bool) error {
	t := newFigureTable(v.profile, nameColumn("path"), locationColumn(2))
	v.addNeighbours(t, v.Callers, "  ← ")
	t.addFigures(v.Total, v.Total, v.Path.String())
	if v.Distinct != v.Total {
		label := "  each sample once"
		if v.DistinctLowerBound {
			label += ", at least"
		}
		t.addFigures(v.Distinct, v.Total, label)
	}
	v.addNeighbours(t, v.Callees, "  → ")
	self := t.figures(v.Self, v.Total)
	self[len(self)-1] = "" // activations belong to the path
	t.Add(append(self, "  (itself)")...)
	return v.profile.print(terminal.NewPrinter(w, wide), &t.Table, 0, v.notes()...)
}

// addNeighbours adds the first of the rows, and the sum of the others.
func (v *Query) addNeighbours(t *figureTable, rows []query.Neighbour, arrow string) {
	shown := cut(rows, v.limit)
	for _, n := range shown {
		name, location := "(begins the stack)", ""
		if n.Method != ccmap.NoMethod {
			name = methodTitle(v.profile.Names().At(n.Method))
			location = formatLocation(v.profile.Names(), n.Call)
		}
		t.addFigures(n.Total, v.Total, arrow+name, location)
	}
	rest := rows[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total ccmap.Counters
	for _, n := range rest {
		total = total.Add(n.Total)
	}
	t.addFigures(total, v.Total, fmt.Sprintf("%s%s %d more", arrow, terminal.Ellipsis, len(rest)))
}

// notes say which figures are lower bounds, or why all are zero.
func (v *Query) notes() []string {
	switch {
	case v.LowerBound:
		return v.profile.lowerBounds("Paths of three methods and more")
	case v.Total.IsZero() && len(v.Path) > 1:
		return []string{"No stack has this path: each '>' is a direct call. 'ccmapd contexts' lists who\n" +
			"calls a method, and from where."}
	}
	return nil
}

type pathElemJSON struct {
	Text    string   `json:"text"` // as it was asked for
	Line    int32    `json:"line,omitempty"`
	Offset  *int32   `json:"offset,omitempty"`
	Methods []string `json:"methods"`
}

type neighbourJSON struct {
	NameJSON
	CountersJSON
}

// JSON describes the profile, the path and its neighbours.
func (v *Query) JSON() any {
	m := v.profile.measure
	return struct {
		Profile  ProfileJSON     `json:"profile"`
		Path     []pathElemJSON  `json:"path"`
		Total    CountersJSON    `json:"total"`
		Distinct CountersJSON    `json:"distinct"`
		Self     CountersJSON    `json:"self"`
		Callers  []neighbourJSON `json:"callers"`
		Callees  []neighbourJSON `json:"callees"`

		LowerBound         bool `json:"lower_bound,omitempty"`
		DistinctLowerBound bool `json:"distinct_lower_bound,omitempty"`
	}{
		v.profile.JSON(), v.pathJSON(), m.json(v.Total), m.json(v.Distinct), m.json(v.Self),
		v.neighboursJSON(v.Callers), v.neighboursJSON(v.Callees),
		v.LowerBound, v.DistinctLowerBound,
	}
}

func (v *Query) pathJSON() []pathElemJSON {
	out := make([]pathElemJSON, len(v.Path))
	for i, elem := range v.Path {
		out[i] = pathElemJSON{Text: elem.Name, Line: elem.Line, Methods: v.Methods[i].Names(v.profile.Names())}
		if elem.AtOffset {
			offset := int32(elem.Offset)
			out[i].Offset = &offset
		}
	}
	return out
}

func (v *Query) neighboursJSON(rows []query.Neighbour) []neighbourJSON {
	rows = cut(rows, v.limit)
	out := make([]neighbourJSON, len(rows))
	for i, n := range rows {
		out[i].CountersJSON = v.profile.measure.json(n.Total)
		if n.Method == ccmap.NoMethod {
			continue
		}
		m := v.profile.Names().At(n.Method)
		out[i].NameJSON = callJSON(v.profile.Names(), n.Call)
		out[i].Method, out[i].Signature = m.Name, m.Signature
	}
	return out
}
