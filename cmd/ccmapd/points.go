package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

const pointsLong = `Points lists the profile points of a profile, method by method: counts at single
positions of its code, beside the stacks. Kinds are call, block, branch, switch, type
and thrown (compiled code that the VM threw away); origins are samples, caught calls,
imported counts of the program itself, and the profile that its VM keeps, which is frozen
where compiled code no longer counts.

Calls whose callers are known stand with them (←, the innermost first); others are of
any callers. The method with the highest count comes first, and in it what comes first
in the source; --sort count orders points alone, --sort name methods by name. METHOD
is a name, or as much of its end as is unique. docs/receivers.md explains kinds, values
and phases, docs/formats.md the JSON.`

const pointsExample = `  ccmapd points web.json
  ccmapd points web.json Server.handle           those of one method
  ccmapd points --kind branch --sort count web.json
  ccmapd points --json --origin imported web.json | jq '.points[] | select(.count == 0)'`

func newPointsCmd(env *environment) subcommand {
	list := pointsFlags{kind: usage.Choice{From: view.PointKinds()}, origin: usage.Choice{From: view.PointOrigins()}}
	cmd := list.command(env, &cobra.Command{
		Use:     "points FILE [METHOD]",
		Short:   "List what was counted at single positions of the code",
		Long:    pointsLong,
		Example: pointsExample,
	}, 0, func(p *view.Profile, rows view.List) (view.View, error) {
		if err := list.phase.apply(p); err != nil {
			return nil, err
		}
		return view.NewPoints(p, view.PointsList{List: rows, Kind: list.kind.Value, Origin: list.origin.Value, Values: list.values})
	})
	list.register(cmd)
	return subcommand{cmd, reading(firstProfile, noOutputs)}
}

// pointsFlags are the flags of points. It has no window: points are of whole runs.
type pointsFlags struct {
	listing
	kind, origin usage.Choice
	phase        phaseFlag
	values       uint
}

func (l *pointsFlags) register(cmd *cobra.Command) {
	l.registerRows(cmd, 20, view.PointsLayout())
	l.phase.register(cmd)
	cmd.Flags().UintVar(&l.values, "values", 5, "list at most `N` values of a point, and the others as one; 0: all")
	l.kind.Register(cmd, "kind", "list points of one `KIND`: "+terminal.OrList(l.kind.From))
	l.origin.Register(cmd, "origin", "list points of one `ORIGIN`: "+terminal.OrList(l.origin.From))
}
