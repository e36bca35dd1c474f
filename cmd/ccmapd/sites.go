package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/view"
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
			p, rows, err := list.loadWithMethods(env, args)
			if err != nil {
				return err
			}
			return env.show(view.NewSites(p, rows, callees), list.json)
		},
	}
	list.register(cmd, 20, view.SitesOrders())
	cmd.Flags().UintVar(&callees, "callees", 5, "list at most `N` callees of a site, and the others as one; 0: all")
	return cmd
}
