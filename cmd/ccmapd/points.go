package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

const pointsLong = `Points lists the profile points of a profile, method by method: what was counted at
single positions of its code, beside the stacks.

  count     executions that were counted
  share     of a value, of these
  point     the method, and its values below it
  location  the line, or the lines from first to last
  kind      and what its values are:
    call    a call through an interface or a function value: the methods it reached
    block   statements that are executed together, with no values; the first block
            of a method counts its calls
    branch  a condition: taken if it was true, untaken if not
    switch  the lines of the cases that were chosen; 'none' for no case
  origin    who counted:
    sampled   CPU samples: the count is samples, as exact as in 'sites'
    burst     calls that were caught, a few of all
    imported  the program itself: all executions (convert --coverage)

Calls whose callers are known stand with them (←, the innermost first); others
are of any callers. 'others' are values that were not kept apart, 'aged' are counts
of any value that files of earlier versions had forgotten, and 'null' are calls of
nothing, where the source sees them.

` + phasesHelp + `

The method with the highest count comes first, and in it what comes first in the
source; --sort count orders points alone, --sort name methods by name. METHOD is a
name, or as much of its end as is unique.

With --json: profile {as in top}, points [{method, signature, file, line, end_line,
kind, origin, callers [{method, signature, file, line and position of the call, see
query}], count, values
[{value ("taken", "untaken" or the line of a case), or method, signature, file and
line of a callee; count, share_percent}], others, aged, nulls}], hidden_points. What
a point does not have is left out: without callers any are meant.`

const pointsExample = `  ccmapd points web.json
  ccmapd points web.json Server.handle           those of one method
  ccmapd points --kind branch --sort count web.json
  ccmapd points --json --origin imported web.json | jq '.points[] | select(.count == 0)'`

func newPointsCmd(env *environment) *cobra.Command {
	list := pointsFlags{kind: choice{from: view.PointKinds()}, origin: choice{from: view.PointOrigins()}}
	cmd := &cobra.Command{
		Use:               "points FILE [METHOD]",
		Short:             "List what was counted at single positions of the code",
		Long:              pointsLong,
		Example:           pointsExample,
		GroupID:           groupRead,
		Args:              methodArgs(0, "a profile, and perhaps a method"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			p, rows, err := list.loadWithMethods(env, args)
			if err == nil {
				err = list.phase.apply(p)
			}
			if err != nil {
				return err
			}
			points := view.PointsList{List: rows, Kind: list.kind.value, Origin: list.origin.value, Values: list.values}
			return env.show(view.NewPoints(p, points), list.json)
		},
	}
	list.register(cmd)
	return cmd
}

// pointsFlags are the flags of points. It has no window: points are of whole runs.
type pointsFlags struct {
	listing
	kind, origin choice
	phase        phaseFlag
	values       uint
}

func (l *pointsFlags) register(cmd *cobra.Command) {
	l.phase.register(cmd)
	l.sort = newChoice(view.PointsOrders())
	flags := cmd.Flags()
	flags.UintVarP(&l.limit, "limit", "n", 20, "list at most `N`; 0: all")
	flags.UintVar(&l.values, "values", 5, "list at most `N` values of a point, and the others as one; 0: all")
	l.methodFlags.register(cmd)
	registerChoice(cmd, &l.kind, "kind", "list points of one `KIND`: "+terminal.OrList(l.kind.from))
	registerChoice(cmd, &l.origin, "origin", "list points of one `ORIGIN`: "+terminal.OrList(l.origin.from))
	registerChoice(cmd, &l.sort, "sort", "order `BY` "+terminal.OrList(l.sort.from))
	flags.BoolVar(&l.json, "json", false, "print JSON")
}
