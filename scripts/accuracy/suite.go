package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// suiteWay is a way to run a guest of the suite.
type suiteWay struct {
	name     string
	interval time.Duration // at the start; 0: on plain wazero
	tuned    bool
}

// The ways. The paper compared plain and tuned, from 50 ms. Tuning ends at the shortest interval that
// the budget permits, but not within seconds: that interval is measured on its own.
var (
	suitePlain    = suiteWay{name: "plain"}
	suiteAgain    = suiteWay{name: "again"}
	suiteTuned    = suiteWay{name: "tuned", interval: 50 * time.Millisecond, tuned: true}
	suiteShortest = suiteWay{name: "shortest", interval: suiteInterval}

	suiteWays = []suiteWay{suitePlain, suiteAgain, suiteTuned, suiteShortest}
)

// suiteInterval is the shortest interval at which samples of the price that the tuner knows take four
// fifths of 1 % of the CPU time: the tuner goes no further.
const suiteInterval = manager.EmbeddedSampleCost * 100 * 5 / 4

const (
	// suiteTimes is how often the whole suite runs, as in the paper.
	suiteTimes = 2
	// suiteSlice is the CPU time of a guest between two turns of the ways.
	suiteSlice = 100 * time.Millisecond
)

// guestCost is the CPU time of a guest's processes, one process for each way.
type guestCost struct {
	name      string
	slices    map[string][]float64 // seconds by way; those with the same index are of one turn, and do the same work
	around    map[string]float64   // seconds by way: compiling, rewriting, the session's end
	samples   map[string]float64   // of a slice, by way
	intervals []time.Duration      // of the tuned way
}

// suiteResults are the costs of all guests, each time that the suite ran.
type suiteResults struct {
	config
	began time.Time
	load  float64 // of the machine, at the beginning
	times [][]guestCost
}

// runSuite measures what sampling costs the suite of guests, as the paper measured its own.
func runSuite(ctx context.Context, c config) error {
	r, err := measureSuite(ctx, c)
	if err != nil {
		return err
	}
	if c.Report != "" {
		if err := os.MkdirAll(filepath.Dir(c.Report), 0o755); err != nil {
			return err
		}
	}
	return c.Write(suitePortion, r.report())
}

// suiteGuests returns the indexes in guests.Real of the guests to measure. A quick campaign needs
// nothing but Go.
func suiteGuests(c config) (chosen []int) {
	for i, g := range guests.Real(1) {
		if c.Wants(g.Name) && !(c.Quick && g.Name != "go-eval") {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

func measureSuite(ctx context.Context, c config) (*suiteResults, error) {
	r := &suiteResults{config: c, began: time.Now(), load: report.LoadAverage()}
	chosen := suiteGuests(c)
	if len(chosen) == 0 {
		return nil, errors.New("-only matches no guest")
	}
	for range suiteTimes {
		var all []guestCost
		for _, i := range chosen {
			cost, err := c.measureSuiteGuest(ctx, i)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", guests.Real(1)[i].Name, err)
			}
			c.Say("suite %d of %d: %s %s %% when tuned", len(r.times)+1, suiteTimes, cost.name, cost.added(suiteTuned))
			all = append(all, cost)
		}
		r.times = append(r.times, all)
	}
	return r, nil
}

// measureSuiteGuest runs a guest in all ways, each in a process of its own, which take turns of a
// slice each. So a processor that changes its speed, and other programs, disturb all ways alike.
func (c config) measureSuiteGuest(ctx context.Context, guest int) (cost guestCost, err error) {
	cost = guestCost{name: guests.Real(1)[guest].Name, slices: make(map[string][]float64), around: make(map[string]float64), samples: make(map[string]float64)}
	processes := make([]*suiteProcess, len(suiteWays))
	for i, w := range suiteWays {
		p, first, err := startSuiteProcess(ctx, guest, w)
		if err != nil {
			return cost, err
		}
		defer p.kill()
		processes[i], cost.around[w.name] = p, first.CPU.Seconds()
	}
	rounds, err := c.suiteRounds(processes[0])
	if err != nil {
		return cost, err
	}
	for turn := range c.pairs + 1 { // the first warms up
		for _, i := range rand.Perm(len(suiteWays)) {
			a, err := processes[i].ask(rounds)
			if err != nil {
				return cost, err
			}
			if name := suiteWays[i].name; turn > 0 {
				cost.slices[name] = append(cost.slices[name], a.CPU.Seconds())
			}
		}
	}
	for i, w := range suiteWays {
		a, err := processes[i].end()
		if err != nil {
			return cost, err
		}
		cost.around[w.name] += a.CPU.Seconds()
		cost.samples[w.name] = float64(a.Samples) / float64(c.pairs+1)
		if w == suiteTuned {
			cost.intervals = a.Intervals
		}
	}
	return cost, nil
}

// slice returns the CPU time of a slice.
func (c config) slice() time.Duration {
	if c.Quick {
		return suiteSlice / 10
	}
	return suiteSlice
}

// suiteRounds finds the number of rounds that a slice takes.
func (c config) suiteRounds(plain *suiteProcess) (int, error) {
	slice := c.slice()
	for rounds := 1; ; rounds *= 2 {
		a, err := plain.ask(rounds)
		if err != nil {
			return 0, err
		}
		if a.CPU >= slice/2 {
			return max(1, int(float64(rounds)*slice.Seconds()/a.CPU.Seconds())), nil
		}
	}
}

// added returns what a way costs over plain, in percent of CPU time: the median of the turns.
func (c guestCost) added(w suiteWay) percentage {
	return percentage(campaign.MedianOf(over(c.slices[w.name], c.slices[suitePlain.name])))
}

// prices returns the CPU time of a sample in µs, turn by turn: that of more samples for the same work.
func prices(all []guestCost) []float64 {
	var more float64
	for _, c := range all {
		more += c.samples[suiteShortest.name] - c.samples[suiteTuned.name]
	}
	tuned, price := sums(all, suiteTuned), sums(all, suiteShortest)
	for i := range price {
		price[i] = 1e6 * (price[i] - tuned[i]) / more
	}
	return price
}

// over returns by how many percent each of a exceeds the one of b.
func over(a, b []float64) []float64 {
	all := ratios(a, b)
	for i := range all {
		all[i] = 100 * (all[i] - 1)
	}
	return all
}

// together returns what a way costs over plain when all guests count: the mean of the turns, in which
// each guest had a slice of the same length.
func together(all []guestCost, w suiteWay) percentage {
	return percentage(campaign.TrimmedMeanOf(over(sums(all, w), sums(all, suitePlain))))
}

// sums returns the CPU time of all guests, turn by turn.
func sums(all []guestCost, w suiteWay) (sum []float64) {
	for _, c := range all {
		for i, s := range c.slices[w.name] {
			if i == len(sum) {
				sum = append(sum, 0)
			}
			sum[i] += s
		}
	}
	return sum
}

// whole returns by how many percent all CPU time of a way exceeds that of plain, with compiling.
func whole(all []guestCost, w suiteWay) float64 {
	total := func(w suiteWay) (sum float64) {
		for _, s := range sums(all, w) {
			sum += s
		}
		for _, c := range all {
			sum += c.around[w.name]
		}
		return sum
	}
	return 100 * (total(w)/total(suitePlain) - 1)
}
