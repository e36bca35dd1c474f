package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/view"
)

const diffLong = `Diff lists the changes from profile A to profile B, the largest first: methods and edges
with all they call, and contexts, which are whole stacks down to a method.

  change  in points: the share in B less the share in A; "new" is not in A, "gone" not
          in B. What grows makes all else smaller
  p       how probable such a change, or a larger one, is anywhere in the list if
          nothing changed. Without --all only p under 0.05 is listed; under ten
          independent samples are never significant

docs/comparing.md explains the test, docs/formats.md the JSON.`

const diffExample = `  ccmapd diff before.pb.gz after.pb.gz
  ccmapd diff --methods -n 50 before.pb.gz after.pb.gz
  ccmapd diff --all --contexts before.pb.gz after.pb.gz     not only what is significant
  ccmapd diff --json a.pb.gz b.pb.gz | jq '.contexts.list[0].path[].method'`

func newDiffCmd(env *environment) subcommand {
	var o diffOptions
	cmd := &cobra.Command{
		Use:     "diff A B",
		Short:   "List what changed between two profiles",
		Long:    diffLong,
		Example: diffExample,
		GroupID: groupRead,
		Args:    argCount(2, 2, "two profiles"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.checked(args); err != nil {
				return err
			}
			return diff(env, args, o)
		},
	}
	o.register(cmd, view.DiffLayout(), compare.ByTime, compare.BySamples)
	flags := cmd.Flags()
	flags.BoolVar(&o.lists.Methods, "methods", false, "list methods")
	flags.BoolVar(&o.lists.Edges, "edges", false, "list edges")
	flags.BoolVar(&o.lists.Contexts, "contexts", false, "list contexts")
	flags.UintVarP(&o.limit, "limit", "n", 10, "list at most `N` of each; 0: all")
	flags.BoolVar(&o.all, "all", false, "list changes that are not significant, too")
	flags.Float64Var(&o.least, "least", 0, "call no change of less than `POINTS` significant")
	return subcommand{cmd, reading(allProfiles, noOutputs)}
}

type diffOptions struct {
	comparing
	lists view.DiffLists
	limit uint // of each list; 0: none
	all   bool
	least float64 // points
}

func (o diffOptions) checked(paths []string) error {
	if !(o.least >= 0 && o.least <= 100) {
		return usage.Errorf("--least %v is not from 0 to 100 points", o.least)
	}
	return checkStdinOnce(paths)
}

func diff(env *environment, paths []string, o diffOptions) error {
	read, err := o.read(env, paths)
	if err != nil {
		return err
	}
	v, err := view.NewDiff(read.profiles[0], read.profiles[1], o.lists, compare.DiffOptions{
		Weight: read.weight, Absorb: read.absorb, Least: o.least, All: o.all, Limit: int(min(o.limit, anyNumber)),
	})
	if err != nil {
		return explainCompare(err)
	}
	return env.show(v, o.printing)
}
