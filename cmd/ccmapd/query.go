package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

const queryLong = `Query counts a path of calls, wherever it occurs in the stacks of a profile:
exactly, and for paths of any length. Then it lists who called the path's first
method and what its last one called, one step up and down.

PATH is 'A > B > C', from the caller to the callee. Each element is a method: its
name, or as much of its end as is unique ('Server.handle'). With --match PATH each
element is a regular expression. 'A:123 > B' means only the call on line 123 of
A's file, and 'A:+0x3c > B' that so many bytes behind the beginning of A, or 'A:+3
> B' lines, as locations show them where the line is unknown.

  cum          CPU time with the path on the stack, once for every occurrence:
               a path that recurses counts repeatedly, as in the CC-Map
  share        of the path
  of all       of the whole profile
  samples      samples with the path on their stack, once for every occurrence
  activations  calls of the last method along this path; ≥ marks a lower bound

Where a path recurses, 'each sample once' gives the same without repetition.

Where a profile was pruned to --max-memory, paths of three methods and more are
lower bounds. Shorter ones are exact; what is not known of the callers and
callees of two methods stands there as [pruned].

` + recentHelp + `

With --json: profile {as in top}, path [{text, methods, line, offset}], total
{samples, time_ns, percent, activations}, distinct {…}, self {…}, callers and
callees [{method, signature, file, line, position, samples, time_ns, percent,
activations}], the line being that of the call; lower_bound, of total, and
distinct_lower_bound. A call has a position, for example "+0x3c", if its line is
unknown or may have several calls. In callers, no method means that the path begins
the stack.`

const queryExample = `  ccmapd query web.pb.gz 'Server.handle'
  ccmapd query web.pb.gz 'Server.handle > json.Marshal'
  ccmapd query web.pb.gz 'Server.handle:88 > json.Marshal'
  ccmapd query guest.pb.gz 'fib:+0x3c > fib'
  ccmapd query web.pb.gz --match '^main\. > ^encoding/json\.'`

func newQueryCmd(env *environment) *cobra.Command {
	var list listing
	cmd := &cobra.Command{
		Use:               "query FILE PATH",
		Short:             "Count a path of calls 'A > B > C', in any context",
		Long:              queryLong,
		Example:           queryExample,
		GroupID:           groupRead,
		Args:              methodArgs(1, "a profile and a path"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			text, isRegexp := list.method(args)
			path, err := query.ParsePath(text)
			if err != nil {
				return usageError{err}
			}
			p, err := list.load(env, args[0])
			if err != nil {
				return err
			}
			q, err := query.New(p.Snapshot, path, finder(isRegexp))
			if err != nil {
				return err
			}
			return printQuery(env, queryResult{q, q.Count(), p}, list)
		},
	}
	list.register(cmd, 10, sortTime, sortSamples, sortActivations, sortName)
	return cmd
}

// queryResult is the result of a query of a profile.
type queryResult struct {
	*query.Query
	query.Result
	profile *profile
}

// sortNeighbours orders neighbours, which are sorted by name.
func sortNeighbours(p *profile, rows []query.Neighbour, by string) {
	if by != sortName {
		slices.SortStableFunc(rows, func(a, b query.Neighbour) int { return p.measure.hotter(by, a.Total, b.Total) })
	}
}

// printQuery prints the path in the middle, its callers above and its callees
// below.
func printQuery(env *environment, r queryResult, list listing) error {
	sortNeighbours(r.profile, r.Callers, list.sort.value)
	sortNeighbours(r.profile, r.Callees, list.sort.value)
	if list.json {
		return writeJSON(env.stdout, queryJSON(r, cut(r.Callers, list.limit), cut(r.Callees, list.limit)))
	}
	t := newFigureTable(
		column{title: "path", shorten: shortenMethod, least: 34},
		column{title: "location", shorten: shortenLocation, least: 16, drop: 2},
	)
	t.addNeighbours(r, r.Callers, list.limit, "  ← ")
	t.addFigures(r.profile, r.Total, r.Total, r.Path.String())
	if r.Distinct != r.Total {
		label := "  each sample once"
		if r.DistinctLowerBound {
			label += ", at least"
		}
		t.addFigures(r.profile, r.Distinct, r.Total, label)
	}
	t.addNeighbours(r, r.Callees, list.limit, "  → ")
	self := r.profile.figures(r.Self, r.Total)
	self[len(self)-1] = "" // activations belong to the path
	t.add(append(self, "  (itself)")...)
	return r.profile.print(env, t, 0, r.notes()...)
}

// addNeighbours adds the first of the rows, and what the others add up to.
func (t *table) addNeighbours(r queryResult, rows []query.Neighbour, limit uint, arrow string) {
	shown := cut(rows, limit)
	for _, n := range shown {
		name, location := "(begins the stack)", ""
		if n.Method != ccmap.NoMethod {
			name = methodTitle(r.profile.Names().At(n.Method))
			location = formatLocation(r.profile.Names(), n.Call)
		}
		t.addFigures(r.profile, n.Total, r.Total, arrow+name, location)
	}
	rest := rows[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total ccmap.Counters
	for _, n := range rest {
		total = total.Add(n.Total)
	}
	t.addFigures(r.profile, total, r.Total, fmt.Sprintf("%s%s %d more", arrow, ellipsis, len(rest)))
}

// notes say which figures are lower bounds, or why all are zero.
func (r queryResult) notes() []string {
	switch {
	case r.LowerBound:
		return r.profile.lowerBounds("Paths of three methods and more")
	case r.Total.IsZero() && len(r.Path) > 1:
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
	methodNameJSON
	countersJSON
}

func queryJSON(r queryResult, callers, callees []query.Neighbour) any {
	m := r.profile.measure
	return struct {
		Profile  profileJSON     `json:"profile"`
		Path     []pathElemJSON  `json:"path"`
		Total    countersJSON    `json:"total"`
		Distinct countersJSON    `json:"distinct"`
		Self     countersJSON    `json:"self"`
		Callers  []neighbourJSON `json:"callers"`
		Callees  []neighbourJSON `json:"callees"`

		LowerBound         bool `json:"lower_bound,omitempty"`
		DistinctLowerBound bool `json:"distinct_lower_bound,omitempty"`
	}{
		describeJSON(r.profile), r.pathJSON(), m.json(r.Total), m.json(r.Distinct), m.json(r.Self),
		neighboursJSON(r.profile, callers), neighboursJSON(r.profile, callees),
		r.LowerBound, r.DistinctLowerBound,
	}
}

func (q queryResult) pathJSON() []pathElemJSON {
	out := make([]pathElemJSON, len(q.Path))
	for i, elem := range q.Path {
		out[i] = pathElemJSON{Text: elem.Name, Line: elem.Line, Methods: q.Methods[i].Names(q.profile.Names())}
		if elem.AtOffset {
			offset := int32(elem.Offset)
			out[i].Offset = &offset
		}
	}
	return out
}

func neighboursJSON(p *profile, rows []query.Neighbour) []neighbourJSON {
	out := make([]neighbourJSON, len(rows))
	for i, n := range rows {
		out[i].countersJSON = p.measure.json(n.Total)
		if n.Method == ccmap.NoMethod {
			continue
		}
		m := p.Names().At(n.Method)
		out[i].methodNameJSON = callJSON(p.Names(), n.Call)
		out[i].Method, out[i].Signature = m.Name, m.Signature
	}
	return out
}
