package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/view"
)

const sitesLong = `Sites lists all call sites of a profile with all that they call, the hottest first.
'receivers' lists dynamic calls only, by caught calls too, and split by caller.

  cum, samples  of the calls there; each sample counts once for a site and once for
                a callee, whatever the recursion
  activations   calls that were seen; ≥ marks a lower bound
  targets       different methods called there, without those that the compiler or
                the kernel put in (runtime.…, [kernel]), and the meaning of that.
                Under 30 samples say nothing: a receiver of 10 % of the calls would
                be missed in 4 % of such sites or more

METHOD restricts the list to calls made by it: a name, or as much of its end as is
unique. docs/receivers.md explains targets, docs/formats.md the JSON.`

const sitesExample = `  ccmapd sites web.pb.gz
  ccmapd sites --sort targets web.pb.gz            the most polymorphic first
  ccmapd sites web.pb.gz Server.handle
  ccmapd sites --json web.pb.gz | jq '.sites[] | select(.hint == "bimorphic")'`

func newSitesCmd(env *environment) subcommand {
	var list listing
	var callees uint
	cmd := list.command(env, &cobra.Command{
		Use:     "sites FILE [METHOD]",
		Short:   "List call sites and the mix of their receivers",
		Long:    sitesLong,
		Example: sitesExample,
	}, 0, func(p *view.Profile, rows view.List) (view.View, error) { return view.NewSites(p, rows, callees) })
	list.register(cmd, 20, view.SitesLayout())
	cmd.Flags().UintVar(&callees, "callees", 5, "list at most `N` callees of a site, and the others as one; 0: all")
	return subcommand{cmd, reading(firstProfile, noOutputs)}
}
