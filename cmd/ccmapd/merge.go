package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
)

const mergeLong = `Merge adds profiles up into one: of several runs, machines or formats. Methods
are the same if their name and signature are. All counters are sums; activations
stay exact only if they are in every profile.

The profiles are read one after the other, so that memory holds the sum and one
of them. What came out is said on standard error.`

const mergeExample = `  ccmapd merge -o week.pb.gz monday.pb.gz tuesday.xml wednesday.json.zst
  ccmapd merge -o - --to folded *.pb.gz | flamegraph.pl > all.svg`

func newMergeCmd(env *environment) *cobra.Command {
	var to choice
	var path string
	cmd := &cobra.Command{
		Use:     "merge -o OUT IN...",
		Short:   "Add profiles up into one",
		Long:    mergeLong,
		Example: mergeExample,
		GroupID: groupRead,
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := newOutput(env, path, to)
			if err != nil {
				return err
			}
			return merge(env, out, args)
		},
	}
	cmd.Flags().StringVarP(&path, "output", "o", "", "write to `FILE`, in the format of its name; '-': standard output")
	// The only error is that there is no such flag.
	_ = cmd.MarkFlagRequired("output")
	registerTo(cmd, &to)
	return cmd
}

func merge(env *environment, out output, paths []string) error {
	if err := checkStdinOnce(paths); err != nil {
		return err
	}
	sum := ccmap.New(ccmap.Options{})
	for _, path := range paths {
		m, err := readMap(env, path)
		if err != nil {
			return err
		}
		if err := sum.Merge(m.Snapshot()); err != nil {
			return fmt.Errorf("merge %s: %w", path, err)
		}
	}
	merged := newProfile(out.path, sum.Snapshot())
	if err := out.write(merged.Snapshot); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.stderr, "%s: %s merged: %s; %s\n", out.path,
		plural(int64(len(paths)), "profile"), merged.extent(), plural(int64(merged.Len()-1), "node"))
	return err
}
