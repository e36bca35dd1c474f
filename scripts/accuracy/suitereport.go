package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

const suitePortion report.Portion = "scripts/accuracy, the suite"

// suiteGoal is the paper's figure: the whole suite takes so many percent more at most.
const suiteGoal = 3

// percentage is a figure in percent with its interval.
type percentage campaign.Interval

func (p percentage) String() string {
	if math.IsInf(p.High-p.Low, 0) {
		return signed(p.Middle)
	}
	return fmt.Sprintf("%s (%s to %s)", signed(p.Middle), signed(p.Low), signed(p.High))
}

func signed(v float64) string {
	switch text := report.Percent(v); {
	case strings.TrimPrefix(text, "-") == "0.0":
		return "0.0"
	case v < 0:
		return strings.Replace(text, "-", "−", 1)
	default:
		return "+" + text
	}
}

// report returns the portion's text.
func (r *suiteResults) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s All took %s; the load average before was %s. Each guest has %d slices of %v of CPU time in each way, in each run of the suite.\n\n%s",
		report.Measured(r.began), report.Seconds(time.Since(r.began).Seconds()), report.Number(r.load, 1), r.pairs, r.slice(), r.table())
	for i, all := range r.times {
		tuned := together(all, suiteTuned)
		fmt.Fprintf(&b, "\nThe suite, run %d: %s %% while guests run, %s %% with compiling and the profile's end; at most %d %%: %s.\n",
			i+1, tuned, signed(whole(all, suiteTuned)), suiteGoal, verdict(tuned, whole(all, suiteTuned)))
	}
	return b.String()
}

// verdict says whether both figures keep to the goal.
func verdict(running percentage, whole float64) string {
	switch {
	case running.Middle > suiteGoal || whole > suiteGoal:
		return "**no**"
	case running.High > suiteGoal:
		return "yes, within the error"
	}
	return "yes"
}

func (r *suiteResults) table() *report.Table {
	t := &report.Table{Head: []string{"guest", "plain again, %", "tuned from 50 ms, %", "in the second run, %", "intervals", "samples",
		fmt.Sprintf("every %v, %%", suiteInterval), "a sample, µs", "compiling and end, s: plain", "tuned"}}
	first, second := r.times[0], r.times[len(r.times)-1]
	for i, c := range first {
		t.Row(c.name, c.added(suiteAgain).String(), c.added(suiteTuned).String(), second[i].added(suiteTuned).String(),
			report.Steps(c.intervals), report.Count(c.samples[suiteTuned.name]*float64(r.pairs)),
			c.added(suiteShortest).String(), report.Number(campaign.Median(prices([]guestCost{c})), 1),
			report.Number(c.around[suitePlain.name], 2), report.Number(c.around[suiteTuned.name], 2))
	}
	sum := func(w suiteWay) (seconds float64) {
		for _, c := range first {
			seconds += c.around[w.name]
		}
		return seconds
	}
	t.Row("all together", together(first, suiteAgain).String(), together(first, suiteTuned).String(), together(second, suiteTuned).String(), "", "",
		together(first, suiteShortest).String(), priceCell(first), report.Number(sum(suitePlain), 2), report.Number(sum(suiteTuned), 2))
	t.Row("all, with compiling and end", signed(whole(first, suiteAgain)), signed(whole(first, suiteTuned)), signed(whole(second, suiteTuned)), "", "",
		signed(whole(first, suiteShortest)), "", "", "")
	return t
}

// priceCell has the price of a sample of all guests, in µs, with its interval.
func priceCell(all []guestCost) string {
	p := campaign.TrimmedMeanOf(prices(all))
	return fmt.Sprintf("%s (%s to %s)", report.Number(p.Middle, 1), report.Number(p.Low, 1), report.Number(p.High, 1))
}
