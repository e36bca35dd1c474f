package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/view"
)

const queryLong = `Query counts a path of calls, wherever it occurs in the stacks of a profile:
exactly, and for paths of any length. Then it lists who called the path's first
method and what its last one called, one step up and down.

PATH is 'A > B > C', from the caller to the callee. Each element is a method: its
name, or as much of its end as is unique ('Server.handle'). With --match PATH each
element is a regular expression. 'A:123 > B' means only the call on line 123 of
A's file, and 'A:+0x3c > B' that so many bytes behind the beginning of A, or 'A:+3
> B' lines, as locations show them where the line is unknown.

  cum          CPU time with the path on the stack, once for every occurrence:
               a path that recurses counts repeatedly, as in the CC-Map
  share        of the path
  of all       of the whole profile
  samples      samples with the path on their stack, once for every occurrence
  activations  calls of the last method along this path; ≥ marks a lower bound

Where a path recurses, 'each sample once' gives the same without repetition.

Where a profile was pruned to --max-memory, paths of three methods and more are
lower bounds. Shorter ones are exact; what is not known of the callers and
callees of two methods stands there as [pruned].

` + recentHelp + `

With --json: profile {as in top}, path [{text, methods, line, offset}], total
{samples, time_ns, percent, activations}, distinct {…}, self {…}, callers and
callees [{method, signature, file, line, position, samples, time_ns, percent,
activations}], the line being that of the call; lower_bound, of total, and
distinct_lower_bound. A call has a position, for example "+0x3c", if its line is
unknown or may have several calls. In callers, no method means that the path begins
the stack.`

const queryExample = `  ccmapd query web.pb.gz 'Server.handle'
  ccmapd query web.pb.gz 'Server.handle > json.Marshal'
  ccmapd query web.pb.gz 'Server.handle:88 > json.Marshal'
  ccmapd query guest.pb.gz 'fib:+0x3c > fib'
  ccmapd query web.pb.gz --match '^main\. > ^encoding/json\.'`

func newQueryCmd(env *environment) *cobra.Command {
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
				return usageError{err}
			}
			p, err := list.load(env, args[0])
			if err != nil {
				return err
			}
			q, err := query.New(p.Snapshot, path, finder(isRegexp))
			if err != nil {
				return err
			}
			return env.show(view.NewQuery(p, q, list.rows(nil)), list.json)
		},
	}
	list.register(cmd, 10, view.QueryOrders())
	return cmd
}
