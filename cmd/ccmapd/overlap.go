package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/view"
)

const overlapLong = `Overlap says how far profiles agree in methods, edges and contexts, in percent, and how
far two profiles of one behaviour would, by chance. The verdict is: same within noise,
differs, or too few samples to tell. More than two files give a matrix of all pairs.

With --check the exit code is 1 if a pair differs, 5 if one has too few samples to
tell and none differs, and else 0. docs/comparing.md explains the figures,
docs/formats.md the JSON.`

const overlapExample = `  ccmapd overlap before.pb.gz after.pb.gz
  ccmapd overlap --by samples run1.json run2.json run3.json
  ccmapd overlap --absorb '^\[kernel\]$' ccmapd.pb.gz runtime-pprof.pb.gz
  ccmapd overlap --min 80 golden.xml new.pb.gz || echo 'the profile has changed'
  ccmapd overlap --check --tolerance 5 golden.xml new.pb.gz    in CI`

func newOverlapCmd(env *environment) subcommand {
	var o overlapOptions
	cmd := &cobra.Command{
		Use:     "overlap A B...",
		Short:   "Say how far profiles agree",
		Long:    overlapLong,
		Example: overlapExample,
		GroupID: groupRead,
		Args:    argCount(2, anyNumber, "two profiles or more"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.checked(args); err != nil {
				return err
			}
			return overlap(env, args, o)
		},
	}
	o.register(cmd, view.OverlapLayout(), compare.ByTime, compare.BySamples, compare.ByActivations)
	flags := cmd.Flags()
	flags.Float64Var(&o.tau, "tau", compare.DefaultTau, "edges are hot from this `PART` of the hottest one's weight, 0 to 1")
	flags.Float64Var(&o.least, "min", 0, "exit with 1 if two profiles' contexts overlap by less than `PERCENT`")
	flags.BoolVar(&o.anyUnit, "any-unit", false, "compare profiles of different units, too, such as CPU time and instructions, by their shares")
	flags.BoolVar(&o.check, "check", false, "exit with 1 if two profiles differ, with 5 if there are too few samples to tell")
	flags.Float64Var(&o.tolerance, "tolerance", compare.DefaultTolerance, "`POINTS` that runs of one program may differ by beyond noise, 0 to 100")
	return subcommand{cmd, reading(allProfiles, noOutputs)}
}

type overlapOptions struct {
	comparing
	tau       float64
	least     float64 // percent; 0: anything will do
	anyUnit   bool    // compare what has different units, too
	check     bool    // exit by the verdict
	tolerance float64 // points
}

func (o overlapOptions) checked(paths []string) error {
	switch {
	case !(o.tolerance >= 0 && o.tolerance <= 100):
		return usage.Errorf("--tolerance %v is not from 0 to 100 points", o.tolerance)
	case !(o.least >= 0 && o.least <= 100):
		return usage.Errorf("--min %v is not from 0 to 100 percent", o.least)
	case !(o.tau > 0 && o.tau <= 1):
		return usage.Errorf("--tau %v is not over 0 and up to 1", o.tau)
	}
	return checkStdinOnce(paths)
}

// overlap compares profiles. The seed is fixed: the same files give the same floors and the
// same verdict.
func overlap(env *environment, paths []string, o overlapOptions) error {
	read, err := o.read(env, paths)
	if err != nil {
		return err
	}
	v, err := view.NewOverlap(read.profiles, compare.Options{
		Weight: read.weight, Absorb: read.absorb, Tau: o.tau, Seed: 1, Tolerance: o.tolerance, AnyUnit: o.anyUnit,
	})
	if err != nil {
		return explainCompare(err)
	}
	if err := env.show(v, o.printing); err != nil {
		return err
	}
	if err := checkLeast(v, o.least); err != nil || !o.check {
		return err
	}
	return checkVerdicts(v)
}

// checkLeast returns an error for the pair that agrees least, if it is under the limit.
func checkLeast(v *view.Overlap, least float64) error {
	lowest := v.Least()
	if lowest.Contexts.Percent >= least {
		return nil
	}
	return fmt.Errorf("the contexts of %s and %s overlap by %s, less than --min %v%%",
		lowest.A.Path, lowest.B.Path, figure.Percent(lowest.Contexts.Percent), least)
}

// checkVerdicts returns an error for the first pair that differs, or else for the first
// pair with too few samples to tell.
func checkVerdicts(v *view.Overlap) error {
	if r, ok := v.First(compare.Differs); ok {
		return fmt.Errorf("%s and %s differ: their %s overlap by %s, %.1f points less than noise explains",
			r.A.Path, r.B.Path, r.VerdictBy, figure.Percent(r.Decisive().Percent), r.Decisive().Unexplained)
	}
	if r, ok := v.First(compare.TooFew); ok {
		return exitError{exitTooFew, withHint(
			fmt.Errorf("%s and %s have too few samples to tell whether they differ", r.A.Path, r.B.Path),
			"Sample for longer, or at a shorter interval.")}
	}
	return nil
}
