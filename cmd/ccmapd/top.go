package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
)

const topLong = `Top lists the methods of a profile, the hottest first.

  flat         CPU time in the method itself, and its share of the whole
  cum          CPU time in the method and all it called; a sample counts once,
               however often the method is on its stack
  samples      samples with the method on their stack
  activations  calls of the method that were seen; ≥ marks a lower bound

FILE is a profile in any format that ccmapd writes, or '-' for standard input.
METHOD restricts the list: a name, or as much of its end as is unique.

With --json: methods [{method, signature, file, line, flat {samples, time_ns,
percent, activations}, cum {…}}], percent being of the whole profile, and profile
{file, executable, pid, runtime, build_id, engine, start, duration_ns, ended,
interval_ns [all settings], samples, time_ns, activations, activations_exact,
lost_samples, throttled, repetitions_known, repetitions_repeated}. What is
unknown is left out. Activations belong to a method as a whole: they are the same
in flat and cum.`

const topExample = `  ccmapd top web.pb.gz
  ccmapd top -n 50 --sort cum web.pb.gz
  ccmapd top web.pb.gz --regexp '^encoding/json\.'
  ccmapd top --json web.xml | jq '.methods[0]'`

func newTopCmd(env *environment) *cobra.Command {
	var list listing
	cmd := &cobra.Command{
		Use:               "top FILE [METHOD]",
		Short:             "List the hottest methods of a profile",
		Long:              topLong,
		Example:           topExample,
		GroupID:           groupRead,
		Args:              usageArgs(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			p, methods, err := loadWithMethods(env, args, list.regexp)
			if err != nil {
				return err
			}
			return printTop(env, p, topRows(p, methods, list.sort.value), list)
		},
	}
	list.register(cmd, 20, "flat", "cum", sortSamples, sortActivations, sortName)
	return cmd
}

// methodRow is one line of top.
type methodRow struct {
	method    ccmap.Method
	flat, cum ccmap.Counters
}

// topRows returns the methods of a set that were sampled, in order. A nil set
// means all methods.
func topRows(p *profile, methods methodSet, by string) []methodRow {
	var rows []methodRow
	for m := range p.Methods() {
		if methods == nil || methods.has(m.ID()) {
			rows = append(rows, methodRow{m.Method(), m.Self(), m.Cumulative()})
		}
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
	case "flat":
		return cmp.Or(cmp.Compare(m.of(b.flat), m.of(a.flat)), cmp.Compare(m.of(b.cum), m.of(a.cum)))
	case "cum":
		return cmp.Or(cmp.Compare(m.of(b.cum), m.of(a.cum)), cmp.Compare(m.of(b.flat), m.of(a.flat)))
	}
	return m.hotter(by, a.cum, b.cum)
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
		{title: "samples", right: true, drop: 1},
		{title: "activations", right: true, drop: 2},
		{title: "method", shorten: shortenMethod, least: 34},
		{title: "location", shorten: shortenLocation, least: 16, drop: 3},
	}}
	for _, r := range shown {
		t.add(p.measure.format(r.flat), p.measure.share(r.flat), p.measure.format(r.cum), p.measure.share(r.cum),
			p.formatSamples(r.cum), p.formatActivations(r.cum), r.method.Name, formatLocation(r.method, 0))
	}
	return p.print(env, t, len(rows)-len(shown))
}

type methodJSON struct {
	methodNameJSON
	Flat countersJSON `json:"flat"`
	Cum  countersJSON `json:"cum"`
}

func topJSON(p *profile, rows []methodRow) any {
	out := struct {
		Profile profileJSON  `json:"profile"`
		Methods []methodJSON `json:"methods"`
	}{describeJSON(p), make([]methodJSON, len(rows))}
	for i, r := range rows {
		out.Methods[i] = methodJSON{nameJSON(r.method), p.measure.json(r.flat), p.measure.json(r.cum)}
	}
	return out
}
