package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/view"
)

const queryLong = `Query counts a path of calls, wherever it occurs in the stacks of a profile: exactly,
and for paths of any length. Then it lists its callers and callees, one step each.

PATH is 'A > B > C', from the caller to the callee. Each element is a method: its
name, or as much of its end as is unique ('Server.handle'). With --match PATH each
element is a regular expression. 'A:123 > B' means only the call on line 123 of A's
file, 'A:+0x3c > B' only the call at this offset, as locations show it ('A:+3' lines).

A path that recurses counts once for every occurrence, as in the CC-Map; 'each sample
once' then gives the same without repetition. In a pruned profile, paths of three
methods and more are lower bounds, and unknown neighbours of two stand as [pruned].
Activations are calls of the last method along this path; ≥ marks a lower bound.
docs/reading-profiles.md explains columns, docs/formats.md the JSON.`

const queryExample = `  ccmapd query web.pb.gz 'Server.handle'
  ccmapd query web.pb.gz 'Server.handle > json.Marshal'
  ccmapd query web.pb.gz 'Server.handle:88 > json.Marshal'
  ccmapd query guest.pb.gz 'fib:+0x3c > fib'
  ccmapd query web.pb.gz --match '^main\. > ^encoding/json\.'`

func newQueryCmd(env *environment) subcommand {
	var list listing
	cmd := &cobra.Command{
		Use:               "query FILE PATH",
		Short:             "Count a path of calls 'A > B > C', in any context",
		Long:              queryLong,
		Example:           queryExample,
		GroupID:           groupRead,
		Args:              methodArgs(1, "a profile and a path"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			text, isRegexp := list.method(args)
			path, err := query.ParsePath(text)
			if err != nil {
				return usage.Of(err)
			}
			p, err := list.load(env, args[0])
			if err != nil {
				return err
			}
			q, err := query.New(p.Snapshot, path, finder(isRegexp))
			if err != nil {
				return err
			}
			v, err := view.NewQuery(p, q, list.rows(nil))
			if err != nil {
				return err
			}
			return env.show(v, list.printing)
		},
	}
	list.register(cmd, 10, view.QueryLayout())
	return subcommand{cmd, reading(firstProfile, noOutputs)}
}
