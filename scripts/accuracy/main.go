// Command accuracy measures how far profiles of the same program agree, as in Table 1 of
// the paper, and how far profiles of WebAssembly guests agree with the truth. Each of the
// two campaigns writes a page of docs/accuracy and its plots:
//
//	go -C scripts run ./accuracy                  about half an hour on two idle cores
//	go -C scripts run ./accuracy -guests          about 20 minutes
//	go -C scripts run ./accuracy -quick           ten seconds, to see that it works
//	go -C scripts run ./accuracy -guests -quick   ten seconds
//
// The campaign on native programs has three steps:
//
//  1. It builds ccmapd, the workloads of testdata/accuracy and three foreign programs
//     ([programs]), and finds the number of rounds of each workload that take the
//     requested CPU time. It does so once for a work folder: all runs in it are of the
//     same builds.
//  2. It runs each program over and over under ccmapd, in every [mode], and
//     keeps the profiles in the work folder. It does not repeat existing runs, so an
//     interrupted campaign goes on.
//  3. It compares every pair of runs of the same program and mode, thins the
//     profiles to see how overlap grows with the number of samples, and
//     compares noise floors with the overlaps that they foretell.
//
// With -record=false it writes the report on the existing runs. With -table it makes the runs of
// the paper's Table 1, half of all, on the paper's programs, and rewrites that table alone.
//
// The campaign on guests keeps nothing in between. It executes each guest once in the
// exact mode, samples executions of the same work in every [shape], and compares the
// samples with the truth ([truth]).
//
// The campaign on the suite measures the cost of sampling. It runs all guests twice, in every
// [suiteWay], and writes a portion of docs/benchmarks.md.
//
// The campaign on second runs (-warm) runs all guests without and with what a first run knows, and
// writes a portion of docs/accuracy/guests.md.
package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// config is the command's flags.
type config struct {
	campaign.Campaign
	runs   int           // of each program in each mode
	cpu    time.Duration // of a run of a workload
	record bool
	table  bool // Table 1 alone
	guests bool
	suite  bool
	warm   bool
	pairs  int // slices of each guest in each way

	guestTime time.Duration // sampling time of a guest in the headline's shapes
}

func main() {
	if serveIfAsked() {
		return
	}
	var c config
	c.Flags(flag.CommandLine, "accuracy", "")
	flag.IntVar(&c.runs, "runs", 10, "of each program in each mode")
	flag.DurationVar(&c.cpu, "cpu", 4*time.Second, "CPU `TIME` of a run of a workload")
	flag.BoolVar(&c.record, "record", true, "run programs; false: report on the runs that there are")
	flag.BoolVar(&c.table, "table", false, "make the runs of Table 1 alone, and rewrite it alone")
	flag.BoolVar(&c.guests, "guests", false, "measure WebAssembly guests against their exact profiles, in place of native programs against each other")
	flag.BoolVar(&c.suite, "suite", false, "measure what sampling costs WebAssembly guests, from 50 ms with tuning, as the paper did for its suite")
	flag.BoolVar(&c.warm, "warm", false, "measure second runs of WebAssembly guests, in mode 2, against first ones")
	flag.IntVar(&c.pairs, "pairs", 160, "slices of a tenth of a second that -suite gives each guest in each way")
	flag.DurationVar(&c.guestTime, "sampled", time.Minute, "`TIME` that each guest is sampled for every 10 ms, and again with bursts")
	flag.Parse()
	if c.Quick {
		c.runs, c.cpu, c.guestTime, c.pairs = 2, 200*time.Millisecond, time.Second, 2
		c.Work = filepath.Join(c.Work, "quick")
		c.Report = filepath.Join(c.Work, "REPORT.md")
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "o" })
	if !given && !c.Quick {
		c.Report = c.page()
	}
	campaign.Main("accuracy", func(ctx context.Context) error { return run(ctx, c) })
}

// page returns the page that the campaign writes.
func (c config) page() string {
	switch {
	case c.suite:
		return filepath.Join("docs", "benchmarks.md")
	case c.guests, c.warm:
		return filepath.Join("docs", "accuracy", "guests.md")
	}
	return filepath.Join("docs", "accuracy", "native.md")
}

func run(ctx context.Context, c config) error {
	switch {
	case c.warm:
		return runWarm(ctx, c)
	case c.suite:
		return runSuite(ctx, c)
	case c.guests:
		return runGuests(ctx, c)
	}
	if c.record {
		if err := c.clear(); err != nil {
			return err
		}
		if err := recordAll(ctx, c); err != nil {
			return err
		}
	}
	results, err := analyze(c)
	if err != nil {
		return err
	}
	return writeReport(c, results)
}

func runGuests(ctx context.Context, c config) error {
	if err := os.MkdirAll(filepath.Dir(c.Report), 0o755); err != nil {
		return err
	}
	results, err := measureGuests(ctx, c, guestList(c))
	if err != nil {
		return err
	}
	return writeGuests(c, results)
}

// clear removes the files of the last quick campaign: a quick campaign must try
// everything.
func (c config) clear() error {
	if !c.Quick {
		return nil
	}
	return os.RemoveAll(c.Work)
}

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

// studied are the programs with shorter runs, too: the three that agreed worst in the
// paper, and one that agreed well.
var studied = []string{"int32", "enum", "stringbuilder", "console"}

// modes returns all ways to run programs.
//
// Tuning starts at 50 ms, as in the paper. With its thresholds, a rate under 1 %, some
// seven hundred verdicts are needed to exclude chance, which takes more than a minute:
// one program runs that long. The others are tuned with thresholds that need some fifty
// verdicts.
func modes(c config) []mode {
	all := []mode{
		{name: tenMillis, sampling: fixed(10 * time.Millisecond), share: 1},
		{name: oneMilli, sampling: fixed(time.Millisecond), share: 1},
	}
	if c.table {
		return all
	}
	all = append(all,
		mode{name: tuned, sampling: []string{"-i", "50ms", "--tune-low", "25", "--tune-high", "50", "--tune-window", "50"}, share: 3, runs: 2},
		mode{name: alone, share: 1, runs: 4},
	)
	if !c.Quick {
		all = append(all, mode{name: tunedLong, sampling: []string{"-i", "50ms"}, share: longShare, runs: 1, only: studied[:1]})
	}
	return append(all,
		mode{name: "1ms-a-64th", sampling: fixed(time.Millisecond), share: 1. / 64, only: studied},
		mode{name: "1ms-a-16th", sampling: fixed(time.Millisecond), share: 1. / 16, only: studied},
		mode{name: "1ms-a-4th", sampling: fixed(time.Millisecond), share: 1. / 4, only: studied},
	)
}

func fixed(interval time.Duration) []string {
	return []string{"-i", interval.String(), "--tune=false", "--max-host-overhead=0"}
}

// applies reports whether a program is run in the mode. The cost of a program alone is
// known only for programs that measure it.
func (m mode) applies(p program) bool {
	if m.sampling == nil && !p.isWorkload() {
		return false
	}
	return m.only == nil || slices.Contains(m.only, p.name)
}

// times returns the number of runs in the mode, for the number of other runs.
func (m mode) times(runs int) int {
	if m.runs == 0 {
		return runs
	}
	return min(m.runs, runs)
}
