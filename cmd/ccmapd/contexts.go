package main

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
)

const contextsLong = `Contexts lists the chains of callers that lead to a method, the hottest first:
who makes it hot, however it was reached.

  cum          CPU time in the method and all it called, when called this way
  share        of all contexts of the method
  of all       of the whole profile
  samples      samples taken in this context
  activations  calls of the method in this context; ≥ marks a lower bound

Below the method stand its callers, each with the line of its call. A last line
'…' means that the chain goes on: see --depth. A sample counts once, by the
outermost frame of the method on its stack; so a recursive method shows who
called it first, and the shares add up to 100 %.

Where a profile was pruned to --max-memory, contexts are lower bounds. The method
itself is not: what it has beyond its contexts stands in '(pruned contexts)'.

` + recentHelp + `

METHOD is a name, or as much of its end as is unique ('Server.handle').

With --json: profile {as in top}, total {…}, contexts [{samples, time_ns, percent,
activations, method {method, signature, file, line}, callers [{…, line and
position of the call, see query}], more}], pruned {…}, lower_bounds. Callers are
innermost first; more says that there are further ones. lower_bounds is true of
contexts after pruning, and pruned what the method has beyond them, where it is one.`

const contextsExample = `  ccmapd contexts web.pb.gz runtime.mallocgc
  ccmapd contexts -n 3 --depth 12 web.pb.gz Server.handle
  ccmapd contexts web.pb.gz --match '^encoding/json\..*[dD]ecode'`

func newContextsCmd(env *environment) *cobra.Command {
	var list listing
	var depth uint
	cmd := &cobra.Command{
		Use:               "contexts FILE METHOD",
		Short:             "List the hottest calling contexts of a method",
		Long:              contextsLong,
		Example:           contextsExample,
		GroupID:           groupRead,
		Args:              methodArgs(1, "a profile and a method"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			p, methods, err := list.loadWithMethods(env, args)
			if err != nil {
				return err
			}
			return printContexts(env, p, contextsOf(p, methods, depth, list.sort.value), list)
		},
	}
	list.register(cmd, 10, sortTime, sortSamples, sortActivations)
	cmd.Flags().UintVar(&depth, "depth", 6, "tell contexts apart by `N` callers; 0: by all, up to the outermost")
	return cmd
}

// contextRow is a method and the chain of callers that led to it.
type contextRow struct {
	method  ccmap.MethodID
	callers []ccmap.Frame // innermost first, each at its call
	more    bool          // some of the chains that are counted here go on
	total   ccmap.Counters
}

// contextList are the contexts of some methods.
type contextList struct {
	rows   []contextRow
	total  ccmap.Counters
	pruned ccmap.Counters // of the total: what no row has
}

func contextsOf(p *profile, methods methodSet, depth uint, by string) contextList {
	l := contextList{rows: contextRows(p, methods, depth, by)}
	for _, r := range l.rows {
		l.total = l.total.Add(r.total)
	}
	l.pruned = prunedContexts(p, methods, l.total)
	l.total = l.total.Add(l.pruned)
	return l
}

// prunedContexts returns what a method's exact total has and its contexts have
// not, as they were pruned. Of several methods nobody knows: they may have been
// on one stack.
func prunedContexts(p *profile, methods methodSet, known ccmap.Counters) ccmap.Counters {
	ids := methods.ids()
	if !p.isPruned() || len(ids) != 1 {
		return ccmap.Counters{}
	}
	m, _ := p.Method(ids[0])
	exact := m.Cumulative()
	return ccmap.Counters{
		Samples:     max(exact.Samples-known.Samples, 0),
		Time:        max(exact.Time-known.Time, 0),
		Activations: max(exact.Activations-known.Activations, 0),
	}
}

// contextRows groups the outermost frames of the methods by their callers, up to
// depth of them, and returns the groups in order.
func contextRows(p *profile, methods methodSet, depth uint, by string) []contextRow {
	var rows []contextRow
	index := make(map[string]int) // in rows, by chain
	for n := range outermost(p.Snapshot, func(n ccmap.Node) bool { return methods.has(n.Method) }) {
		if p.Inclusive(n.ID).IsZero() {
			continue // nothing recent
		}
		chain, more := chainAbove(p.Snapshot, n, depth)
		key := chainKey(n.Method, chain)
		i, known := index[key]
		if !known {
			i = len(rows)
			index[key] = i
			rows = append(rows, contextRow{method: n.Method, callers: chain})
		}
		rows[i].total = rows[i].total.Add(p.Inclusive(n.ID))
		rows[i].more = rows[i].more || more
	}
	slices.SortFunc(rows, func(a, b contextRow) int {
		return cmp.Or(p.measure.hotter(by, a.total, b.total), compareChains(p.Names(), a, b))
	})
	return rows
}

// chainAbove returns the callers of a node, innermost first, and whether there
// are more than depth; depth 0 means all.
func chainAbove(s *ccmap.Snapshot, n ccmap.Node, depth uint) (chain []ccmap.Frame, more bool) {
	for caller := range callers(s, n) {
		if depth > 0 && uint(len(chain)) == depth {
			return chain, true
		}
		chain = append(chain, caller)
	}
	return chain, false
}

func chainKey(method ccmap.MethodID, chain []ccmap.Frame) string {
	key := binary.LittleEndian.AppendUint32(nil, uint32(method))
	for _, f := range chain {
		key = binary.LittleEndian.AppendUint32(key, uint32(f.Method))
		key = binary.LittleEndian.AppendUint32(key, f.Offset)
	}
	return string(key)
}

// compareChains orders contexts by the names in them, so that equally hot ones
// stand in the same order in every run.
func compareChains(names *ccmap.Names, a, b contextRow) int {
	return cmp.Or(
		compareMethods(names, a.method, b.method),
		slices.CompareFunc(a.callers, b.callers, func(x, y ccmap.Frame) int {
			return cmp.Or(compareMethods(names, x.Method, y.Method), cmp.Compare(x.Offset, y.Offset))
		}),
	)
}

func printContexts(env *environment, p *profile, l contextList, list listing) error {
	shown := cut(l.rows, list.limit)
	if list.json {
		return writeJSON(env.stdout, contextsJSON(p, l, shown))
	}
	t := newFigureTable(
		column{title: "context", shorten: shortenMethod, least: 34},
		column{title: "location", shorten: shortenLocation, least: 16, drop: 2},
	)
	for _, r := range shown {
		t.addContext(p, r, l.total)
	}
	if !l.pruned.IsZero() {
		t.addFigures(p, l.pruned, l.total, "(pruned contexts)")
	}
	return p.print(env, t, len(l.rows)-len(shown), p.lowerBounds("Contexts")...)
}

func (t *table) addContext(p *profile, r contextRow, total ccmap.Counters) {
	m := p.Names().At(r.method)
	t.addFigures(p, r.total, total, methodTitle(m), formatDeclaration(m))
	for _, f := range r.callers {
		t.addText("  ← "+methodTitle(p.Names().At(f.Method)), formatLocation(p.Names(), f))
	}
	if r.more {
		t.addText("  ← "+ellipsis, "")
	}
}

type contextJSON struct {
	countersJSON
	Method  methodNameJSON   `json:"method"`
	Callers []methodNameJSON `json:"callers"` // innermost first
	More    bool             `json:"more"`
}

func contextsJSON(p *profile, l contextList, shown []contextRow) any {
	out := struct {
		Profile     profileJSON   `json:"profile"`
		Total       countersJSON  `json:"total"`
		Contexts    []contextJSON `json:"contexts"`
		Pruned      *countersJSON `json:"pruned,omitempty"`
		LowerBounds bool          `json:"lower_bounds,omitempty"`
	}{describeJSON(p), p.measure.json(l.total), make([]contextJSON, len(shown)), nil, p.isPruned()}
	if !l.pruned.IsZero() {
		pruned := p.measure.json(l.pruned)
		out.Pruned = &pruned
	}
	for i, r := range shown {
		out.Contexts[i] = newContextJSON(p, r)
	}
	return out
}

func newContextJSON(p *profile, r contextRow) contextJSON {
	return contextJSON{p.measure.json(r.total), nameJSON(p.Names().At(r.method)), callersJSON(p.Names(), r.callers), r.more}
}
