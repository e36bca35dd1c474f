package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

const topLong = `Top lists the methods of a profile, the hottest first.

  flat         CPU time in the method itself, and its share of the whole
  cum          CPU time in the method and all it called; a sample counts once,
               however often the method is on its stack
  recent%      share of the recent CPU time that is in the method itself: hot
               now, beside hot ever. See --window of 'ccmapd attach'
  samples      samples with the method on their stack
  activations  calls of the method that were seen; ≥ marks a lower bound

A profile may measure something else than CPU time, for example instructions or,
from 'go tool pprof', bytes of the heap: its second line names it, and all of the
above is of that. --sample-type chooses what a pprof file with several is read as.

FILE is a profile in any format that ccmapd writes, or '-' for standard input.
METHOD restricts the list: a name, or as much of its end as is unique.

Where a profile was pruned to --max-memory, [pruned] has the time of the contexts
that were left out as its cum. All methods' figures are exact nevertheless, and
its flat is 0: that time stands where it was taken. Only the formats XML and JSON
keep that; from others, all figures of such a profile are lower bounds.

` + recentHelp + `

With --json: methods [{method, signature, file, line, flat {samples, time_ns,
percent, activations}, cum {…}, recent {flat {samples, time_ns, percent}, cum
{…}}}], percent being of the whole profile or of all that is recent, and profile
{file, executable, pid, runtime, build_id, engine, start, duration_ns, ended,
interval_ns [all settings], unit, samples, time_ns [in that unit, as all time_ns
are], activations, activations_exact, lost_samples, throttled, clock_ns [CPU time
by the program's own clock], unaccounted_ns [of it], repetitions_known,
repetitions_repeated, window_ns,
recent {samples, time_ns, percent of the whole run}, only_recent, settled
{methods, edges, contexts, samples}, blind {percent of the time that is unknown
and truncated, misleads, warning}, pruned {times, nodes, samples, time_ns,
percent, exact_totals}}. What is unknown is left out. Activations belong to a
method as a whole: they are the same in flat and cum.`

const topExample = `  ccmapd top web.pb.gz
  ccmapd top -n 50 --sort cum web.pb.gz
  ccmapd top web.pb.gz --match '^encoding/json\.'
  ccmapd top --sort recent web.pb.gz         the hottest now first
  ccmapd top --recent web.pb.gz              nothing but what is hot now
  ccmapd top --json web.xml | jq '.methods[0]'`

func newTopCmd(env *environment) *cobra.Command {
	var list listing
	cmd := &cobra.Command{
		Use:               "top FILE [METHOD]",
		Short:             "List the hottest methods of a profile",
		Long:              topLong,
		Example:           topExample,
		GroupID:           groupRead,
		Args:              methodArgs(0, "a profile, and perhaps a method"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			p, methods, err := list.loadWithMethods(env, args)
			if err != nil {
				return err
			}
			if _, ok := p.window(); !ok && list.sort.value == sortRecent {
				return p.noWindow()
			}
			return printTop(env, p, topRows(p, methods, list.sort.value), list)
		},
	}
	list.register(cmd, 20, "flat", "cum", sortRecent, sortSamples, sortActivations, sortName)
	return cmd
}

// sortRecent, as the order of methods, is that of what is hot now.
const sortRecent = "recent"

// methodRow is one line of top.
type methodRow struct {
	method ccmap.Method
	amounts
	recent amounts // in the window; zero without one
}

// amounts are what is in a method itself, and in it and all it called.
type amounts struct{ flat, cum ccmap.Counters }

func amountsOf(m ccmap.MethodProfile) amounts { return amounts{m.Self(), m.Cumulative()} }

// topRows returns the methods of a set that were sampled, in order. A nil set
// means all methods.
func topRows(p *profile, methods query.Methods, by string) []methodRow {
	var rows []methodRow
	window, windowed := p.window()
	for m := range p.Methods() {
		if methods != nil && !methods.Has(m.ID()) || m.Total().IsZero() {
			continue
		}
		row := methodRow{method: m.Method(), amounts: amountsOf(m)}
		if windowed {
			now, _ := window.Method(m.ID())
			row.recent = amountsOf(now)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b methodRow) int {
		return cmp.Or(
			p.measure.compareRows(by, a, b),
			cmp.Compare(a.method.Name, b.method.Name),
			cmp.Compare(a.method.Signature, b.method.Signature),
		)
	})
	return rows
}

func (m measure) compareRows(by string, a, b methodRow) int {
	switch by {
	case sortName:
		return 0
	case sortRecent:
		return m.compareAmounts(a.recent, b.recent)
	case "flat":
		return m.compareAmounts(a.amounts, b.amounts)
	case "cum":
		return cmp.Or(cmp.Compare(m.of(b.cum), m.of(a.cum)), cmp.Compare(m.of(b.flat), m.of(a.flat)))
	}
	return m.hotter(by, a.cum, b.cum)
}

// compareAmounts orders by what is in the methods themselves.
func (m measure) compareAmounts(a, b amounts) int {
	return cmp.Or(cmp.Compare(m.of(b.flat), m.of(a.flat)), cmp.Compare(m.of(b.cum), m.of(a.cum)))
}

func printTop(env *environment, p *profile, rows []methodRow, list listing) error {
	shown := cut(rows, list.limit)
	if list.json {
		return writeJSON(env.stdout, topJSON(p, shown))
	}
	t := &table{columns: []column{
		{title: "flat", right: true},
		{title: "flat%", right: true},
		{title: "cum", right: true},
		{title: "cum%", right: true},
		{title: "recent%", right: true, drop: 1},
		{title: "samples", right: true, drop: 2},
		{title: "activations", right: true, drop: 3},
		{title: "method", shorten: shortenMethod, least: 34},
		{title: "location", shorten: shortenLocation, least: 16, drop: 4},
	}}
	recent := p.recentShares()
	for _, r := range shown {
		t.add(p.measure.format(r.flat), p.measure.share(r.flat), p.measure.format(r.cum), p.measure.share(r.cum),
			recent(r.recent.flat), p.formatSamples(r.cum), p.formatActivations(r.cum), methodTitle(r.method), formatDeclaration(r.method))
	}
	return p.print(env, t, len(rows)-len(shown))
}

type methodJSON struct {
	methodNameJSON
	Flat   countersJSON `json:"flat"`
	Cum    countersJSON `json:"cum"`
	Recent *recentJSON  `json:"recent,omitempty"` // where there is a window
}

// recentJSON has the figures of a method in the window.
type recentJSON struct {
	Flat amountJSON `json:"flat"`
	Cum  amountJSON `json:"cum"`
}

func topJSON(p *profile, rows []methodRow) any {
	return struct {
		Profile profileJSON  `json:"profile"`
		Methods []methodJSON `json:"methods"`
	}{describeJSON(p), p.methodsJSON(rows)}
}

func (p *profile) methodsJSON(rows []methodRow) []methodJSON {
	out := make([]methodJSON, len(rows))
	for i, r := range rows {
		out[i] = methodJSON{methodNameJSON: nameJSON(r.method), Flat: p.measure.json(r.flat), Cum: p.measure.json(r.cum)}
	}
	if window, ok := p.Recent(); ok {
		now := measureOf(window)
		for i, r := range rows {
			out[i].Recent = &recentJSON{now.amountJSON(r.recent.flat), now.amountJSON(r.recent.cum)}
		}
	}
	return out
}
