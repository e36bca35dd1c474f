// Command attachbench measures, from outside, the cost of profilers to the programs that
// they watch: ccmapd with each engine that is permitted here, perf record and the
// program's own runtime/pprof, all in one run. It writes a portion of docs/benchmarks.md:
//
//	go -C scripts run ./attachbench                      as root; -time bounds it, 40 minutes
//	go -C scripts run ./attachbench -only server -o ''   one workload, printed
//	go -C scripts run ./attachbench -quick               seconds: does everything work?
//
// The workloads are this program again ([workloads]), so that they count their own
// operations. A figure is CPU time of the workload for an operation, by the clock of its
// process. It is paired: a window with a profiler is compared with the windows before and
// after it without one, and a pair of such windows without any profiler is the noise. All
// ways take turns, in a new order in each round. A way that a goal is about is done when the
// 95 % interval of its mean is narrow enough, or when the time is up; any other after ten pairs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

const portion report.Portion = "scripts/attachbench"

// bench is a run of the command.
type bench struct {
	campaign.Campaign
	time, window, settle, sight time.Duration

	engines []engine
	remarks []string // rows that are left out, and why
}

func main() {
	if os.Getenv(workVariable) != "" {
		runTarget(os.Getenv(workVariable), os.Stdin, os.Stdout)
		return
	}
	b := new(bench)
	b.Flags(flag.CommandLine, "attachbench", "docs/benchmarks.md")
	flag.DurationVar(&b.time, "time", 40*time.Minute, "the most `TIME` that all pairs may take")
	flag.DurationVar(&b.window, "window", time.Second, "`TIME` of a window")
	flag.DurationVar(&b.settle, "settle", 700*time.Millisecond, "`TIME` that a profiler has to begin, before its window")
	flag.DurationVar(&b.sight, "sight", 20*time.Second, "`TIME` of the profiles whose content is compared")
	flag.Parse()
	if b.Quick {
		b.time, b.window, b.settle, b.sight, b.Report = 0, 100*time.Millisecond, 150*time.Millisecond, time.Second, ""
	}
	campaign.Main("attachbench", b.run)
}

func (b *bench) run(ctx context.Context) error {
	remove, err := b.Prepare(ctx)
	if err != nil {
		return err
	}
	defer remove()
	began, load := time.Now(), report.LoadAverage()
	if err := b.findEngines(ctx); err != nil {
		return err
	}
	costs, err := b.measureCosts(ctx)
	if err != nil {
		return err
	}
	sights, err := b.measureSights(ctx)
	if err != nil {
		return err
	}
	change, err := b.intervalChange(ctx)
	if err != nil {
		return err
	}
	if b.Quick {
		b.Say("everything works; the figures of a quick run say nothing")
	}
	return b.Write(portion, b.page(costs, sights, began, load)+change)
}

// measureCosts measures every workload, each for its share of the time.
func (b *bench) measureCosts(ctx context.Context) ([]costs, error) {
	var all []costs
	chosen := b.chosen()
	end := time.Now().Add(b.time)
	for i, w := range chosen {
		left := time.Until(end) / time.Duration(len(chosen)-i)
		c, err := b.measure(ctx, w, time.Now().Add(left))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("-only matches no workload")
	}
	return all, nil
}

func (b *bench) chosen() (chosen []workload) {
	for _, w := range workloads {
		if b.Wants(w.name) && !(b.Quick && w.slow) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// page is the portion's text.
func (b *bench) page(all []costs, sights *report.Table, began time.Time, load float64) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s All took %s; the load average before was %s.\n", report.Measured(began),
		report.Seconds(time.Since(began).Seconds()), report.Number(load, 1))
	s.WriteString("Windows of " + b.window.String() + ", profilers at 100 Hz unless a row says more. *Added* is the mean of the pairs without the lowest and the highest fifth, with its 95 % interval: neighbours of a shared machine make single windows far off.\n")
	for _, r := range b.remarks {
		s.WriteString("Left out: " + r + ".\n")
	}
	s.WriteString("\n" + costTable(b.engines, all).String())
	if len(sights.Rows) > 0 {
		s.WriteString("\n" + sights.String())
	}
	return s.String()
}
