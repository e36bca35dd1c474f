package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// unit is the unit of the cost that a way adds.
type unit int

const (
	percent             unit = iota // of CPU time
	nanoseconds                     // an operation
	microsecondsASample             // of CPU time
)

var unitNames = [...]string{percent: "%", nanoseconds: "ns a switch", microsecondsASample: "µs a sample"}

// widths is half the width of the 95 % interval of the mean that is narrow enough.
var widths = [...]float64{percent: 0.5, nanoseconds: 50, microsecondsASample: 1}

// added returns the cost that a way adds, in the unit, from the cost of an operation
// without it and with it.
func (w workload) added(without, with float64) float64 {
	switch w.unit {
	case nanoseconds:
		return with - without
	case microsecondsASample: // with every CPU second come as many samples as the frequency
		return 1e6 * (1 - without/with) / float64(w.frequency())
	}
	return 100 * (with/without - 1)
}

// costs are a workload's results.
type costs struct {
	workload
	without  []float64 // ns an operation, window by window
	switches float64   // of its threads, a second
	ways     []*wayCost
}

// wayCost is the result of a way.
type wayCost struct {
	name        string
	added       []float64
	round       []int     // of each
	cpu         []float64 // of the profiler, percent of a core
	memory      int       // of the profiler, bytes
	attach      []float64 // ms
	descriptors int
}

const leastPairs = 10

// done reports whether the mean is known well enough. Ways that no goal is about end early,
// and leave their time to the others.
func (b *bench) done(w workload, c *wayCost) bool {
	if len(c.added) < leastPairs {
		return false
	}
	g, found := goals[w.name]
	decides := found && (c.name == again || c.name == g.way(b.engines) || c.name == g.beside)
	return !decides || campaign.TrimmedMeanOf(c.added).Half() <= widths[w.unit]
}

// measure measures a workload in rounds of all ways, until all are done or the time is up.
// There is one round at least.
func (b *bench) measure(ctx context.Context, w workload, end time.Time) (costs, error) {
	c := costs{workload: w}
	t, err := start(ctx, w)
	if err != nil {
		return c, err
	}
	defer t.stop()
	ways := b.ways(w)
	for _, way := range ways {
		c.ways = append(c.ways, &wayCost{name: way.name})
	}
	if err := c.countSwitches(t, b.window); err != nil {
		return c, err
	}
	for round := 0; ; round++ {
		open := false
		for _, i := range rand.Perm(len(ways)) {
			if round > 0 && time.Now().After(end) {
				return c, nil
			}
			if b.done(w, c.ways[i]) {
				continue
			}
			open = true
			if err := b.pair(ctx, &c, t, round, ways[i], c.ways[i]); err != nil {
				return c, fmt.Errorf("%s: %w", ways[i].name, err)
			}
		}
		if !open {
			return c, nil
		}
		b.Say("%s: round %d", w.name, round+1)
	}
}

// countSwitches measures the first window without a profiler.
func (c *costs) countSwitches(t *target, window time.Duration) error {
	began, before := time.Now(), t.switches()
	cost, err := t.cost(window)
	c.without = append(c.without, cost)
	c.switches = float64(t.switches()-before) / time.Since(began).Seconds()
	return err
}

// pair measures a window with a profiler and one after it. The one before it is the last.
func (b *bench) pair(ctx context.Context, c *costs, t *target, round int, way way, to *wayCost) error {
	watch, err := way.begin(ctx, t)
	if err != nil {
		return err
	}
	time.Sleep(b.settle)
	for before := t.cpu(); b.Quick && t.cpu()-before <= sampleable && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond) // a short window must show a sample, too
	}
	began, before := time.Now(), cpuOf(watch.processes)
	with, err := t.cost(b.window)
	took, used := time.Since(began), cpuOf(watch.processes)-before
	memory := memoryOf(watch.processes)
	if err := errors.Join(err, watch.end()); err != nil {
		return err
	}
	after, err := t.cost(b.window)
	without := (c.without[len(c.without)-1] + after) / 2
	c.without = append(c.without, after)
	to.added, to.round = append(to.added, c.added(without, with)), append(to.round, round)
	to.cpu = append(to.cpu, 100*used.Seconds()/took.Seconds())
	to.memory, to.descriptors = max(to.memory, memory), watch.descriptors
	if watch.attach > 0 {
		to.attach = append(to.attach, 1e3*watch.attach.Seconds())
	}
	return err
}

func cpuOf(processes []*campaign.Process) (sum time.Duration) {
	for _, p := range processes {
		if used, err := p.CPU(); err == nil { // it has ended else, and its end says why
			sum += used
		}
	}
	return sum
}

func memoryOf(processes []*campaign.Process) (sum int) {
	for _, p := range processes {
		sum += p.Memory()
	}
	return sum
}

// goal is a figure to reach.
type goal struct {
	of     string  // a way; empty: the best engine
	added  float64 // at most, in the workload's unit; 0: none
	beside string  // a way, to add no more than that; empty: none
	times  float64 // or as many times that
	cpu    float64 // of ccmapd, percent of a core; 0: none
}

var goals = map[string]goal{
	"switches": {added: 50},
	"server":   {added: 1, beside: perfEvery, times: 1, cpu: 0.5},
	"busy":     {cpu: 0.5},
	"twenty":   {of: served, cpu: 1},
	"samples":  {beside: perfAnchor, times: 1.1},
}

// way returns the name of the way that is to reach the goal.
func (g goal) way(engines []engine) string {
	if g.of != "" {
		return g.of
	}
	return engines[0].name
}

// judge says which goals a way meets: a figure counts as met if the upper end of its
// interval is under the goal and the width that a mean may have.
func (c costs) judge(to *wayCost) (verdict string) {
	g, found := goals[c.name]
	switch {
	case !found:
		return ""
	case len(to.added) < leastPairs:
		return fmt.Sprintf("takes %d pairs", leastPairs)
	}
	say := func(what string, met bool) {
		if verdict != "" {
			verdict += "; "
		}
		verdict += what + map[bool]string{true: ": yes", false: ": **no**"}[met]
	}
	width := widths[c.unit]
	if g.added > 0 {
		say(fmt.Sprintf("≤ %v %s", g.added, unitNames[c.unit]), campaign.TrimmedMeanOf(to.added).High <= g.added+width)
	}
	if other := c.way(g.beside); other != nil {
		what := "≤ " + g.beside
		if g.times != 1 {
			what = fmt.Sprintf("≤ %v × %s", g.times, g.beside)
		}
		say(what, campaign.TrimmedMeanOf(to.over(other, g.times)).High <= width)
	}
	if g.cpu > 0 {
		say(fmt.Sprintf("≤ %v %% of a core", g.cpu), campaign.TrimmedMeanOf(to.cpu).High <= g.cpu)
	}
	return verdict
}

func (c costs) way(name string) *wayCost {
	for _, w := range c.ways {
		if w.name == name && len(w.added) > 0 {
			return w
		}
	}
	return nil
}

// over returns, round by round, how much more a way adds than a number of times another.
func (c *wayCost) over(other *wayCost, times float64) (differences []float64) {
	theirs := make(map[int]float64)
	for i, round := range other.round {
		theirs[round] = other.added[i]
	}
	for i, round := range c.round {
		if v, both := theirs[round]; both {
			differences = append(differences, c.added[i]-times*v)
		}
	}
	return differences
}

var costHead = []string{"workload", "profiler", "pairs", "added", "± 95 %", "unit", "profiler's CPU, % of a core", "its memory, MiB", "attached after, ms", "descriptors", "goal"}

// costTable has a row for each way, and its verdict where a goal is about it.
func costTable(engines []engine, all []costs) *report.Table {
	t := &report.Table{Head: costHead}
	for _, c := range all {
		t.Row(c.about, "nothing", report.Count(float64(len(c.without))), "", "", fmt.Sprintf("%s ns CPU an operation, %s switches/s",
			report.Count(campaign.Median(c.without)), report.Count(c.switches)), "", "", "", "", "")
		for _, w := range c.ways {
			verdict := ""
			if w.name == goals[c.name].way(engines) {
				verdict = c.judge(w)
			}
			t.Row(append(w.cells(c), verdict)...)
		}
	}
	return t
}

func (w *wayCost) cells(c costs) []string {
	mean := campaign.TrimmedMeanOf(w.added)
	decimals := 2
	if c.unit == nanoseconds {
		decimals = 0
	}
	cells := []string{c.name, w.name, fmt.Sprint(len(w.added)), report.Number(mean.Middle, decimals), report.Number(mean.Half(), decimals), unitNames[c.unit]}
	if w.memory == 0 {
		return append(cells, "", "", "", "")
	}
	cells = append(cells, report.Number(campaign.TrimmedMeanOf(w.cpu).Middle, 2), report.Number(float64(w.memory)/(1<<20), 0))
	if len(w.attach) == 0 {
		return append(cells, "", "")
	}
	cells = append(cells, report.Number(campaign.Median(w.attach), 0))
	if w.descriptors == 0 {
		return append(cells, "")
	}
	return append(cells, fmt.Sprint(w.descriptors))
}
