package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
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

// contextsOf returns the contexts of methods, the hottest first.
func contextsOf(p *profile, methods query.Methods, depth uint, by string) query.ContextList {
	l := query.Contexts(p.Snapshot, methods, depth)
	slices.SortStableFunc(l.Contexts, func(a, b query.Context) int { return p.measure.hotter(by, a.Total, b.Total) })
	return l
}

func printContexts(env *environment, p *profile, l query.ContextList, list listing) error {
	shown := cut(l.Contexts, list.limit)
	if list.json {
		return writeJSON(env.stdout, contextsJSON(p, l, shown))
	}
	t := newFigureTable(
		column{title: "context", shorten: shortenMethod, least: 34},
		column{title: "location", shorten: shortenLocation, least: 16, drop: 2},
	)
	for _, r := range shown {
		t.addContext(p, r, l.Total)
	}
	if !l.Pruned.IsZero() {
		t.addFigures(p, l.Pruned, l.Total, "(pruned contexts)")
	}
	return p.print(env, t, len(l.Contexts)-len(shown), p.lowerBounds("Contexts")...)
}

func (t *table) addContext(p *profile, r query.Context, total ccmap.Counters) {
	m := p.Names().At(r.Method)
	t.addFigures(p, r.Total, total, methodTitle(m), formatDeclaration(m))
	for _, f := range r.Callers {
		t.addText("  ← "+methodTitle(p.Names().At(f.Method)), formatLocation(p.Names(), f))
	}
	if r.More {
		t.addText("  ← "+ellipsis, "")
	}
}

type contextJSON struct {
	countersJSON
	Method  methodNameJSON   `json:"method"`
	Callers []methodNameJSON `json:"callers"` // innermost first
	More    bool             `json:"more"`
}

func contextsJSON(p *profile, l query.ContextList, shown []query.Context) any {
	out := struct {
		Profile     profileJSON   `json:"profile"`
		Total       countersJSON  `json:"total"`
		Contexts    []contextJSON `json:"contexts"`
		Pruned      *countersJSON `json:"pruned,omitempty"`
		LowerBounds bool          `json:"lower_bounds,omitempty"`
	}{describeJSON(p), p.measure.json(l.Total), make([]contextJSON, len(shown)), nil, p.isPruned()}
	if !l.Pruned.IsZero() {
		pruned := p.measure.json(l.Pruned)
		out.Pruned = &pruned
	}
	for i, r := range shown {
		out.Contexts[i] = newContextJSON(p, r)
	}
	return out
}

func newContextJSON(p *profile, r query.Context) contextJSON {
	return contextJSON{p.measure.json(r.Total), nameJSON(p.Names().At(r.Method)), callersJSON(p.Names(), r.Callers), r.More}
}
