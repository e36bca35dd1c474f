package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/view"
)

// checkOverlap adds the flags by which overlap fails where profiles differ.
func (a *asking) checkOverlap() {
	flags := a.Flags()
	least := flags.Float64("min", 0, "exit with 1 if two profiles' contexts overlap by less than `PERCENT`")
	check := flags.Bool("check", false, "exit with 1 if two profiles differ, with 5 if there are too few samples to tell")
	a.before = func([]string) error {
		if !(*least >= 0 && *least <= 100) {
			return usage.Errorf("--min %v is not from 0 to 100 percent", *least)
		}
		return nil
	}
	a.then = func(v view.View) error {
		overlap := v.(*view.Overlap)
		if err := checkLeast(overlap, *least); err != nil || !*check {
			return err
		}
		return checkVerdicts(overlap)
	}
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
