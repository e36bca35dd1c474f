package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/mergefiles"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

const mergeLong = `Merge adds profiles up into one: of several runs, machines or formats. All counters
are sums; activations stay exact only if they are in every profile. All profiles must
measure the same: CPU time and bytes have no sum.

FILE=WEIGHT counts a profile that often, for example 2 or 0.5. Counts are rounded so
that their sums are right. A profile with a weight has no exact activations. A file of
the whole name, '=' and all, is taken as that file; FILE=WEIGHT=1 says so of any name.

The profiles are read on all CPUs and added up in their order, within
--max-read-memory; pipes are read one by one. --max-memory prunes the sum. A profile that
cannot be merged ends it, and nothing is written; --keep-going leaves it out, says so on
standard error, and exits with 1. docs/comparing.md explains weights.`

const mergeExample = `  ccmapd merge -o week.pb.gz monday.pb.gz tuesday.xml wednesday.json.zst
  ccmapd merge -o all.pb.gz canary.pb.gz=0.1 main.pb.gz
  ccmapd merge -o api.pb.gz --label route=/api *.pb.gz
  find . -name '*.pb.gz' | ccmapd merge -o fleet.xml --files-from -
  ccmapd merge -o - --to folded *.pb.gz | flamegraph.pl > all.svg`

// mergeFlags are the flags of merge.
type mergeFlags struct {
	output    string
	to        usage.Choice
	list      string
	memory    figure.ByteSize
	keepGoing bool

	sampleType string
	labels     labelFlags
}

func newMergeCmd(env *environment) subcommand {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:     "merge -o OUT FILE[=WEIGHT]...",
		Short:   "Add profiles up into one",
		Long:    mergeLong,
		Example: mergeExample,
		GroupID: groupRead,
		RunE: func(_ *cobra.Command, args []string) error {
			return merge(env, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE`, in the format of its name; '-': standard output")
	// The only error is that there is no such flag.
	_ = cmd.MarkFlagRequired("output")
	registerTo(cmd, &f.to)
	flags.StringVar(&f.list, "files-from", "", "merge the profiles that `LIST` names as well, one a line; '-': standard input")
	flags.Var(&f.memory, "max-memory", "prune the sum to at most this `SIZE`; 0: no limit")
	flags.BoolVar(&f.keepGoing, "keep-going", false, "leave out profiles that cannot be merged")
	registerSampleType(cmd, &f.sampleType)
	flags.Var(&f.labels, "label", "merge only samples with this label, `KEY=VALUE`; repeat for several")
	return subcommand{cmd, reading(mergedProfiles, flaggedOutput)}
}

func merge(env *environment, f mergeFlags, args []string) error {
	out, err := output.New(f.output, formatNamed(f.to), terminal.Unguarded(env.stdout))
	if err != nil {
		return err
	}
	inputs, err := mergeInputs(env, args, f.list)
	if err != nil {
		return err
	}
	env.memory.boundHeap(2 * int64(f.memory))
	m := mergefiles.New(mergefiles.Options{
		Inputs: inputs, From: &env.reader, Stderr: env.stderr, KeepGoing: f.keepGoing,
		Read: export.ReadOptions{SampleType: f.sampleType}, MaxMemory: env.memory.left(), MaxSum: int64(f.memory),
	})
	if err := m.Run(); err != nil {
		return explainMerge(err)
	}
	if m.Merged == 0 {
		return m.LeftOut()
	}
	merged, err := f.labels.choose(view.New(out.Path, m.Sum.Snapshot()))
	if err != nil {
		return err
	}
	if err := out.Write(merged.Labelled()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stderr, "%s: %s merged: %s; %s\n", terminal.Printable(out.Path),
		figure.Plural(int64(m.Merged), "profile"), merged.Extent(), figure.Plural(int64(merged.Len()-1), "node"))
	return errors.Join(err, reportLost(env.stderr, out, merged.Snapshot), m.LeftOut())
}

// explainMerge adds advice to an error in reading or adding a profile.
func explainMerge(err error) error {
	switch {
	case !errors.As(err, new(mergefiles.InputError)):
		return err
	case errors.Is(err, ccmap.ErrUnlike):
		return withHint(err, oneKind)
	case errors.Is(err, gopgo.ErrRanks):
		return explainPGO(err)
	}
	return explainRead(err)
}

// mergeInputs returns the profiles that the arguments and the list name.
func mergeInputs(env *environment, args []string, list string) ([]mergefiles.Input, error) {
	if list != "" {
		more, err := mergefiles.ReadList(list, env.stdin)
		if err != nil {
			return nil, explainMerge(err)
		}
		if i := slices.IndexFunc(more, client.IsRemote); i >= 0 {
			return nil, usage.Errorf("%s names %s, which is not a file: name it on the command line", list, more[i])
		}
		args = append(args, more...)
	}
	var inputs []mergefiles.Input
	var paths []string
	for _, arg := range args {
		in, err := mergefiles.ParseInput(arg)
		if err != nil {
			return nil, usage.Of(err)
		}
		inputs, paths = append(inputs, in), append(paths, in.Path)
	}
	if len(inputs) == 0 {
		return nil, usage.Errorf("merge wants a profile at least")
	}
	if list == stdPath {
		paths = append(paths, stdPath)
	}
	return inputs, checkStdinOnce(paths)
}
