package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/view"
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
			p, rows, err := list.loadWithMethods(env, args)
			if err != nil {
				return err
			}
			top, err := view.NewTop(p, rows)
			if err != nil {
				return explainWindow(err)
			}
			return env.show(top, list.json)
		},
	}
	list.register(cmd, 20, view.TopOrders())
	return cmd
}
