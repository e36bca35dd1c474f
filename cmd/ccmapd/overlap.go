package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

const overlapLong = `Overlap says how far profiles agree: the sum over all counters of the smaller of
their two weights, in percent, for

  methods   one counter a method
  edges     one a caller, call site and callee
  contexts  one a sub-path of a stack: the full Call Context Map

An overlap can be read only beside its floor: what two random halves of the same
profile overlap, by noise alone. Under its floor it is a difference, above it
perhaps none. With more than two files, a matrix for each of the three has the
overlap of every pair and, in parentheses, its floor.

Correlation (Pearson, Spearman) is that of the methods' totals. Coverage is how
many of one profile's hot edges, those with at least --tau of the hottest one's
weight, the other has at all.

With --json: weight and pairs [{a {file, samples, weight, …}, b {…}, methods
{percent, floor, floor_a, floor_b, counters}, edges {…}, contexts {…}, pearson,
spearman, coverage {tau, hot_a, hot_b, ab, ba}, union_nodes}], notes.`

const overlapExample = `  ccmapd overlap before.pb.gz after.pb.gz
  ccmapd overlap --by samples run1.json run2.json run3.json
  ccmapd overlap --absorb '^\[kernel\]$' ccmapd.pb.gz runtime-pprof.pb.gz
  ccmapd overlap --min 80 golden.xml new.pb.gz || echo 'the profile has changed'`

func newOverlapCmd(env *environment) *cobra.Command {
	var o overlapOptions
	cmd := &cobra.Command{
		Use:     "overlap A B...",
		Short:   "Say how far profiles agree",
		Long:    overlapLong,
		Example: overlapExample,
		GroupID: groupRead,
		Args:    usageArgs(cobra.MinimumNArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			return overlap(env, args, o)
		},
	}
	o.by = choice{value: compare.ByTime.String(), from: []string{
		compare.ByTime.String(), compare.BySamples.String(), compare.ByActivations.String(),
	}}
	registerChoice(cmd, &o.by, "by", "weigh `BY` "+orList(o.by.from))
	flags := cmd.Flags()
	flags.Float64Var(&o.tau, "tau", compare.DefaultTau, "edges are hot from this `PART` of the hottest one's weight, 0 to 1")
	flags.Float64Var(&o.least, "min", 0, "exit with 1 if two profiles' contexts overlap by less than `PERCENT`")
	flags.StringVar(&o.absorb, "absorb", "", "count methods that match `REGEXP`, and what they call, for their callers")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

type overlapOptions struct {
	by     choice
	tau    float64
	least  float64 // percent; 0: anything will do
	absorb string  // regexp; empty: nothing
	json   bool
}

func (o overlapOptions) check(paths []string) error {
	switch {
	case !(o.least >= 0 && o.least <= 100):
		return usagef("--min %v is not from 0 to 100 percent", o.least)
	case !(o.tau > 0 && o.tau <= 1):
		return usagef("--tau %v is not over 0 and up to 1", o.tau)
	}
	return checkStdinOnce(paths)
}

// pair is the comparison of two of the profiles, by their numbers.
type pair struct {
	a, b int
	compare.Result
}

func overlap(env *environment, paths []string, o overlapOptions) error {
	profiles := make([]*profile, len(paths))
	for i, path := range paths {
		p, err := loadProfile(env, path)
		if err != nil {
			return err
		}
		profiles[i] = p
	}
	pairs, err := comparePairs(profiles, o)
	if err != nil {
		return err
	}
	if err := printOverlap(env, profiles, pairs, o); err != nil {
		return err
	}
	return checkLeast(profiles, pairs, o.least)
}

// comparePairs compares every profile with all after it.
func comparePairs(profiles []*profile, o overlapOptions) ([]pair, error) {
	options := compare.Options{Tau: o.tau, Seed: 1} // a fixed seed: the same files give the same floors
	if err := options.Weight.UnmarshalText([]byte(o.by.value)); err != nil {
		return nil, usageError{err}
	}
	if o.absorb != "" {
		re, err := regexp.Compile(o.absorb)
		if err != nil {
			return nil, usagef("--absorb: %w", err)
		}
		options.Absorb = func(m ccmap.Method) bool { return re.MatchString(m.Name) }
	}
	var pairs []pair
	for a := range profiles {
		for b := a + 1; b < len(profiles); b++ {
			r, err := compare.Compare(profiles[a].Snapshot, profiles[b].Snapshot, options)
			if err != nil {
				return nil, explainCompare(fmt.Errorf("%s and %s: %w", profiles[a].path, profiles[b].path, err))
			}
			pairs = append(pairs, pair{a, b, r})
		}
	}
	return pairs, nil
}

// checkLeast returns an error for the pair that agrees least if it is under the
// limit.
func checkLeast(profiles []*profile, pairs []pair, least float64) error {
	lowest := slices.MinFunc(pairs, func(a, b pair) int { return cmp.Compare(a.Contexts.Percent, b.Contexts.Percent) })
	if lowest.Contexts.Percent >= least {
		return nil
	}
	return fmt.Errorf("the contexts of %s and %s overlap by %s, less than --min %v%%",
		profiles[lowest.a].path, profiles[lowest.b].path, formatPercent(lowest.Contexts.Percent), least)
}

func explainCompare(err error) error {
	if errors.Is(err, compare.ErrEmpty) {
		return withHint(err, "Sample for longer, weigh by something else (--by samples, --by time) or absorb less.")
	}
	return err
}
