package view

import (
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var queryQuestion = Question{
	Name:    "query",
	Subject: OfPath,
	Layout:  queryLayout,
	Short:   "Count a path of calls 'A > B > C', in any context",
	Long: `Query counts a path of calls, wherever it occurs in the stacks of a profile: exactly,
and for paths of any length. Then it lists its callers and callees, one step each.

PATH is 'A > B > C', from the caller to the callee. Each element is a method: its
name, or as much of its end as is unique ('Server.handle'). With --match PATH each
element is a regular expression. 'A:123 > B' means only the call on line 123 of A's
file, 'A:+0x3c > B' only the call at this offset, as locations show it ('A:+3' lines).

A path that recurses counts once for every occurrence, as in the CC-Map; 'each sample
once' then gives the same without repetition. In a pruned profile, paths of three
methods and more are lower bounds, and unknown neighbours of two stand as [pruned].
Activations are calls of the last method along this path; ≥ marks a lower bound.
docs/reading-profiles.md explains columns, docs/formats.md the JSON.`,
	Example: `  ccmapd query web.pb.gz 'Server.handle'
  ccmapd query web.pb.gz 'Server.handle > json.Marshal'
  ccmapd query web.pb.gz 'Server.handle:88 > json.Marshal'
  ccmapd query guest.pb.gz 'fib:+0x3c > fib'
  ccmapd query web.pb.gz --match '^main\. > ^encoding/json\.'`,
	New: func() *Form {
		var l List
		return &Form{
			Params: listParams(&l, 10, queryLayout),
			Answer: func(a About) (View, error) {
				path, err := query.ParsePath(a.Text)
				if err != nil {
					return nil, &Error{Code: CodeUsage, Err: err}
				}
				found, err := query.New(a.Profiles[0].Snapshot, path, a.Find)
				if err != nil {
					return nil, err
				}
				return NewQuery(a.Profiles[0], found, l)
			},
		}
	},
}

// Query shows the count of a path of calls, its callers and its callees.
type Query struct {
	*query.Query
	query.Result
	profile *Profile
	limit   uint
}

var queryColumns = columns[*Query]{
	profileMember(func(v *Query) *Profile { return v.profile }),
	array("path", "the elements of the path", elemColumns, func(_ *Profile, v *Query) []elemRow { return v.elems() }),
	counted("total", "the path, once for every occurrence", func(v *Query) *ccmap.Counters { return &v.Total }),
	counted("distinct", "the path, once for every sample", func(v *Query) *ccmap.Counters { return &v.Distinct }),
	counted("self", "the last method is innermost", func(v *Query) *ccmap.Counters { return &v.Self }),
	array("callers", "calls one step above", neighbourColumns, func(_ *Profile, v *Query) []query.Neighbour { return cut(v.Callers, v.limit) }),
	array("callees", "calls one step below", neighbourColumns, func(_ *Profile, v *Query) []query.Neighbour { return cut(v.Callees, v.limit) }),
	col("", "lower_bound,omitempty", "total may be more, as contexts were pruned", func(v *Query) bool { return v.LowerBound }),
	col("", "distinct_lower_bound,omitempty", "distinct may be more", func(v *Query) bool { return v.DistinctLowerBound }),
}

// counted declares an object of counters that is no row of a table.
func counted[R any](key, doc string, get func(R) *ccmap.Counters) column[R] {
	return object(key, doc, counterColumns.named("", "", "", ""), func(_ *Profile, r R) *ccmap.Counters { return get(r) })
}

// elemRow is an element of a path with the names of its methods.
type elemRow struct {
	query.Elem
	methods []string
}

func (v *Query) elems() []elemRow {
	rows := make([]elemRow, len(v.Path))
	for i, elem := range v.Path {
		rows[i] = elemRow{elem, v.Methods[i].Names(v.profile.Names())}
	}
	return rows
}

var elemColumns = columns[elemRow]{
	col("", "text", "as it was asked for", func(r elemRow) string { return r.Name }),
	col("", "line,omitempty", "of the call", func(r elemRow) int32 { return r.Line }),
	col("", "offset,omitempty", "of the call", func(r elemRow) *int32 { return given(int32(r.Offset), r.AtOffset) }),
	col("", "methods", "that the element stands for", func(r elemRow) []string { return r.methods }),
}

var neighbourColumns = append(
	inline(placeColumns, func(p *Profile, n query.Neighbour) *place { return neighbourAt(p, n) }),
	inline(counterColumns, func(_ *Profile, n query.Neighbour) *ccmap.Counters { return &n.Total })...,
)

// neighbourAt returns the method of a neighbour, at the place of the call. Nothing is
// above a path that begins the stack.
func neighbourAt(p *Profile, n query.Neighbour) *place {
	if n.Method == ccmap.NoMethod {
		return &place{}
	}
	m := p.Names().At(n.Method)
	at := calledAt(p.Names(), n.Call)
	at.Name, at.Signature = m.Name, m.Signature
	return at
}

var queryLayout = layout("cum share path location",
	"cum share of-all samples activations path location", queryColumns.list(""), ByTime, BySamples, ByActivations, ByName)

// NewQuery counts the path of a query, which was made for the snapshot of the profile. The
// order and the limit of the list are for the callers, and for the callees. The error says
// that there is no such order.
func NewQuery(p *Profile, q *query.Query, l List) (*Query, error) {
	order, err := queryLayout.order(l)
	if err != nil {
		return nil, err
	}
	v := &Query{q, q.Count(), p, l.Limit}
	if order == ByName {
		return v, nil
	}
	for _, rows := range [][]query.Neighbour{v.Callers, v.Callees} {
		slices.SortStableFunc(rows, func(a, b query.Neighbour) int { return p.measure.hotter(order, a.Total, b.Total) })
	}
	return v, nil
}

// Text prints the path in the middle, its callers above and its callees below.
func (v *Query) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, queryLayout, o)
	v.addNeighbours(s, v.Callers, "  ← ")
	s.addPart(v.Total, v.Total, cells{"path": v.Path.String()})
	if v.Distinct != v.Total {
		label := "  each sample once"
		if v.DistinctLowerBound {
			label += ", at least"
		}
		s.addPart(v.Distinct, v.Total, cells{"path": label})
	}
	v.addNeighbours(s, v.Callees, "  → ")
	s.addPart(v.Self, v.Total, cells{"path": "  (itself)", "activations": ""}) // activations belong to the path
	return s.print(w, 0, v.notes()...)
}

// addNeighbours adds the first of the rows, and the sum of the others.
func (v *Query) addNeighbours(s *sheet, rows []query.Neighbour, arrow string) {
	shown := cut(rows, v.limit)
	for _, n := range shown {
		at := neighbourAt(v.profile, n)
		title := v.profile.title(at.Method)
		if n.Method == ccmap.NoMethod {
			title = "(begins the stack)"
		}
		s.addPart(n.Total, v.Total, cells{"path": arrow + title, "location": at.location})
	}
	rest := rows[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total ccmap.Counters
	for _, n := range rest {
		total = total.Add(n.Total)
	}
	s.addPart(total, v.Total, cells{"path": fmt.Sprintf("%s%s %d more", arrow, terminal.Ellipsis, len(rest))})
}

// notes say which figures are lower bounds, or why all are zero.
func (v *Query) notes() []string {
	switch {
	case v.LowerBound:
		return v.profile.lowerBounds("Paths of three methods and more")
	case v.Total.IsZero() && len(v.Path) > 1:
		return []string{"No stack has this path: each '>' is a direct call." + v.profile.hint(HintPath, " ")}
	}
	return nil
}

// JSON describes the profile, the path and its neighbours.
func (v *Query) JSON() any { return queryColumns.json(v.profile, v) }
