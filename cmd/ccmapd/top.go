package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/view"
)

const topLong = `Top lists the methods of a profile, the hottest first.

  flat, flat%  CPU time in the method itself, and its share of the whole
  cum, cum%    CPU time in the method and all it called
  recent%      share of the recent CPU time: hot now, beside hot ever
  samples      samples with the method on their stack
  activations  calls of the method that were seen; ≥ marks a lower bound

FILE is a profile in any format that ccmapd writes, or '-' for standard input; the
first line names its unit. METHOD is a name, or as much of its end as is unique.
docs/reading-profiles.md explains columns, --recent and [pruned], docs/formats.md JSON.`

const topExample = `  ccmapd top web.pb.gz
  ccmapd top -n 50 --sort cum --columns cum%,method web.pb.gz
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
			return env.show(top, list.printing)
		},
	}
	list.register(cmd, 20, view.TopLayout())
	return cmd
}
