package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

const sitesLong = `Sites lists the call sites of a profile with what they call, the hottest first:
which calls always reach the same method, and which have a mix of receivers.

  cum          CPU time in what is called there
  share        of a callee, among the callees of its site
  of all       of the whole profile
  samples      samples with this call on their stack; each counts once for a site
               and once for a callee, whatever the recursion
  activations  calls that were seen; ≥ marks a lower bound
  targets      different methods called there, but for what the compiler or the
               kernel put in (runtime.…, [kernel]), and what that means:
    monomorphic  one: may be called directly, or inlined
    bimorphic    two receivers of one method: may be called behind one test
    megamorphic  three receivers or more
    mixed        methods of different names: a function value, or several calls
                 on one line, which are one call site in Go
    line unknown several methods, but the profile does not say on which lines
    few samples  under 30: a receiver of 10 % of the calls would be missed in
                 4 % of such sites or more, so nothing is said

Which callers tell the receiver, and types of caught calls: see 'receivers'.

METHOD restricts the list to calls made by it: a name, or as much of its end as
is unique. All figures are exact, also where contexts were pruned (see 'top'), but
for recursive calls in these: they may then count repeatedly, up to their method's
cum in 'top'.

` + recentHelp + `

With --json: profile {as in top}, sites [{caller {method, signature, file, line
and position of the call, see query}, samples, time_ns, percent, activations,
targets, hint, callees [{method, signature, file, line, samples, time_ns, percent,
activations, share_percent}]}].`

const sitesExample = `  ccmapd sites web.pb.gz
  ccmapd sites --sort targets web.pb.gz            the most polymorphic first
  ccmapd sites web.pb.gz Server.handle
  ccmapd sites --json web.pb.gz | jq '.sites[] | select(.hint == "bimorphic")'`

func newSitesCmd(env *environment) *cobra.Command {
	var list listing
	var callees uint
	cmd := &cobra.Command{
		Use:               "sites FILE [METHOD]",
		Short:             "List call sites and the mix of their receivers",
		Long:              sitesLong,
		Example:           sitesExample,
		GroupID:           groupRead,
		Args:              methodArgs(0, "a profile, and perhaps a method"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			p, callers, err := list.loadWithMethods(env, args)
			if err != nil {
				return err
			}
			return printSites(env, p, siteRows(p, callers, list.sort.value), list, callees)
		},
	}
	list.register(cmd, 20, sortTime, sortSamples, sortActivations, "targets", sortName)
	cmd.Flags().UintVar(&callees, "callees", 5, "list at most `N` callees of a site, and the others as one; 0: all")
	return cmd
}

// siteRow is a call site with its callees, the hottest first.
type siteRow struct {
	caller  ccmap.Method
	call    ccmap.Frame
	total   ccmap.Counters
	callees []calleeRow
	targets int // of the callees, those that are written there
	verdict pollution.Verdict
}

type calleeRow struct {
	method ccmap.Method
	total  ccmap.Counters
}

// siteRows returns the call sites of a set of callers in order. A nil set means
// all.
func siteRows(p *profile, callers query.Methods, by string) []siteRow {
	var rows []siteRow
	receivers := p.pollution()
	for m := range p.Methods() {
		if callers != nil && !callers.Has(m.ID()) {
			continue
		}
		for site := range m.CallSites() {
			if row := newSiteRow(p, m.Method(), site, receivers.Samples(site)); !row.total.IsZero() {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b siteRow) int {
		return cmp.Or(
			p.measure.compareSites(by, a, b),
			cmp.Compare(a.caller.Name, b.caller.Name),
			cmp.Compare(a.caller.Signature, b.caller.Signature),
			cmp.Compare(int32(a.call.Offset), int32(b.call.Offset)),
		)
	})
	return rows
}

func newSiteRow(p *profile, caller ccmap.Method, site ccmap.CallSite, receivers pollution.Evidence) siteRow {
	row := siteRow{
		caller: caller, call: ccmap.Frame{Method: site.Caller(), Offset: site.Offset()}, total: site.Cumulative(),
		targets: len(receivers.Targets), verdict: receivers.Verdict,
	}
	for callee := range site.Callees() {
		method := p.Names().At(callee.Callee())
		if callee.Total().IsZero() || method.Name == ccmap.PrunedName {
			continue // not recent; counted at other callees
		}
		row.callees = append(row.callees, calleeRow{method, callee.Cumulative()})
	}
	slices.SortFunc(row.callees, func(a, b calleeRow) int {
		return cmp.Or(
			p.measure.hotter(sortTime, a.total, b.total),
			cmp.Compare(a.method.Name, b.method.Name),
			cmp.Compare(a.method.Signature, b.method.Signature),
		)
	})
	return row
}

// hint says what the callees of a site mean to who would optimize the call.
func (r siteRow) hint() string {
	if r.verdict == pollution.Unknown {
		return "few samples"
	}
	return r.verdict.String()
}

func (m measure) compareSites(by string, a, b siteRow) int {
	switch by {
	case sortName:
		return 0
	case "targets":
		return cmp.Or(cmp.Compare(b.targets, a.targets), m.hotter(sortTime, a.total, b.total))
	}
	return m.hotter(by, a.total, b.total)
}

func printSites(env *environment, p *profile, rows []siteRow, list listing, callees uint) error {
	shown := cut(rows, list.limit)
	if list.json {
		return writeJSON(env.stdout, sitesJSON(p, shown))
	}
	t := newFigureTable(
		column{title: "call site", shorten: shortenMethod, least: 34},
		column{title: "location", shorten: shortenLocation, least: 16, drop: 2},
		column{title: "targets"},
	)
	for _, r := range shown {
		t.addSite(p, r, callees)
	}
	return p.print(env, t, len(rows)-len(shown))
}

// addSite adds a site and the hottest of its callees; the others are added up.
func (t *table) addSite(p *profile, r siteRow, callees uint) {
	t.addFigures(p, r.total, r.total, methodTitle(r.caller), formatLocation(p.Names(), r.call),
		formatCount(int64(r.targets))+" "+r.hint())
	shown := cut(r.callees, callees)
	for _, c := range shown {
		t.addFigures(p, c.total, r.total, "  → "+methodTitle(c.method), formatDeclaration(c.method))
	}
	rest := r.callees[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total ccmap.Counters
	for _, c := range rest {
		total = total.Add(c.total)
	}
	total.Samples, total.Time = min(total.Samples, r.total.Samples), min(total.Time, r.total.Time) // each counts once
	t.addFigures(p, total, r.total, fmt.Sprintf("  → %s %d more", ellipsis, len(rest)))
}

type siteJSON struct {
	Caller methodNameJSON `json:"caller"`
	countersJSON
	Targets int          `json:"targets"` // callees that are written there
	Hint    string       `json:"hint"`
	Callees []calleeJSON `json:"callees"`
}

type calleeJSON struct {
	methodNameJSON
	countersJSON
	SharePercent float64 `json:"share_percent"` // of the site, by the measure of percent
}

func sitesJSON(p *profile, rows []siteRow) any {
	out := struct {
		Profile profileJSON `json:"profile"`
		Sites   []siteJSON  `json:"sites"`
	}{describeJSON(p), make([]siteJSON, len(rows))}
	for i, r := range rows {
		site := siteJSON{callJSON(p.Names(), r.call), p.measure.json(r.total), r.targets, r.hint(), make([]calleeJSON, len(r.callees))}
		for j, c := range r.callees {
			site.Callees[j] = calleeJSON{nameJSON(c.method), p.measure.json(c.total),
				percent(p.measure.of(c.total), p.measure.of(r.total))}
		}
		out.Sites[i] = site
	}
	return out
}
