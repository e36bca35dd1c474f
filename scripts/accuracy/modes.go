package main

import (
	"slices"
	"time"
)

// mode is a way to run programs.
type mode struct {
	name     string
	sampling []string // flags of ccmapd; none: the program runs alone
	share    float64  // of the calibrated work
	runs     int      // at most
	only     []string // programs; none: all
}

const (
	tenMillis = "10ms"
	oneMilli  = "1ms"
	tuned     = "tuned"
	tunedLong = "tuned-long"
	alone     = "alone"
)

// longShare makes a run long enough for the tuner with the paper's thresholds.
const longShare = 75

// studied are the programs whose runs are made shorter, too: the three that
// agreed worst in the paper, and one that agreed well.
var studied = []string{"int32", "enum", "stringbuilder", "console"}

// modes returns all ways to run programs.
//
// Tuning starts at 50 ms, as in the paper. With its thresholds, a rate under 1 %,
// some seven hundred verdicts are needed until chance can be excluded, which
// takes more than a minute: one program is run for so long. The others are
// tuned at thresholds that some fifty verdicts do for.
func modes(c config) []mode {
	all := []mode{
		{name: tenMillis, sampling: fixed(10 * time.Millisecond), share: 1},
		{name: oneMilli, sampling: fixed(time.Millisecond), share: 1},
		{name: tuned, sampling: []string{"-i", "50ms", "--tune-low", "25", "--tune-high", "50", "--tune-window", "50"}, share: 3, runs: 2},
		{name: alone, share: 1, runs: 4},
	}
	if !c.quick {
		all = append(all, mode{name: tunedLong, sampling: []string{"-i", "50ms"}, share: longShare, runs: 1, only: studied[:1]})
	}
	return append(all,
		mode{name: "1ms-a-64th", sampling: fixed(time.Millisecond), share: 1. / 64, only: studied},
		mode{name: "1ms-a-16th", sampling: fixed(time.Millisecond), share: 1. / 16, only: studied},
		mode{name: "1ms-a-4th", sampling: fixed(time.Millisecond), share: 1. / 4, only: studied},
	)
}

func fixed(interval time.Duration) []string {
	return []string{"-i", interval.String(), "--tune=false"}
}

// applies reports whether a program is run in the mode. What a program costs
// alone is known of those that measure it.
func (m mode) applies(p program) bool {
	if m.sampling == nil && !p.isWorkload() {
		return false
	}
	return m.only == nil || slices.Contains(m.only, p.name)
}

// times returns how often, where the others are run so often.
func (m mode) times(runs int) int {
	if m.runs == 0 {
		return runs
	}
	return min(m.runs, runs)
}
