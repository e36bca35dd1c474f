package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/view"
)

const contextsLong = `Contexts lists the chains of callers that lead to a method, the hottest first.

  cum          CPU time in the method and all it called, when called this way
  share        of all contexts of the method; 'of all': of the whole profile
  samples      samples taken in this context
  activations  calls of the method in this context; ≥ marks a lower bound

Below the method stand its callers, each with the line of its call. A last line '…'
means that the chain goes on: see --depth. A sample counts once, by the outermost
frame of the method on its stack; so a recursive method shows its first caller,
and the shares add up to 100 %. Contexts of a pruned profile are lower bounds:
'(pruned contexts)' has the rest of the method.

METHOD is a name, or as much of its end as is unique ('Server.handle').
docs/reading-profiles.md explains --recent, docs/formats.md the JSON.`

const contextsExample = `  ccmapd contexts web.pb.gz runtime.mallocgc
  ccmapd contexts -n 3 --label route=/api web.pb.gz Server.handle
  ccmapd contexts web.pb.gz --match '^encoding/json\..*[dD]ecode'`

func newContextsCmd(env *environment) subcommand {
	var list listing
	var depth uint
	cmd := list.command(env, &cobra.Command{
		Use:     "contexts FILE METHOD",
		Short:   "List the hottest calling contexts of a method",
		Long:    contextsLong,
		Example: contextsExample,
	}, 1, func(p *view.Profile, rows view.List) (view.View, error) { return view.NewContexts(p, rows, depth) })
	list.register(cmd, 10, view.ContextsLayout())
	cmd.Flags().UintVar(&depth, "depth", 6, "tell contexts apart by `N` callers; 0: by all, up to the outermost")
	return subcommand{cmd, reading(firstProfile, noOutputs)}
}
