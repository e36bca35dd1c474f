package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign jvmcost lets programs on HotSpot count what they do, and compares windows in
// which they are sampled with windows of the same run in which they are not.
const jvmCostPortion report.Portion = "scripts/field, jvmcost"

// rounds is what a program says it has done; see Rounds.java.
type rounds struct {
	mu         sync.Mutex
	rest       []byte
	done, nano int64 // the last line
}

// Write takes output of the program.
func (r *rounds) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, p...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		var done, nano int64
		if n, _ := fmt.Sscanf(string(line), "done %d %d", &done, &nano); n == 2 {
			r.done, r.nano = done, nano
		}
		r.rest = rest
	}
}

func (r *rounds) last() (done, nano int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done, r.nano
}

// pace is how much a program does in a time, by the clock on the wall and by its own CPU
// clock. The second says what sampling takes from the program itself, on a machine with other
// work, too.
type pace struct {
	speed, work float64 // a second, and a second of CPU time
	switches    float64 // of its threads, a second
}

// pace returns the pace of a program over a time.
func (r *rounds) pace(ctx context.Context, p *campaign.Process, d time.Duration) (pace, error) {
	used, err1 := p.CPU()
	switched := p.Switches()
	done, nano := r.last()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	used2, err2 := p.CPU()
	done2, nano2 := r.last()
	return pace{
		speed:    float64(done2-done) / (float64(nano2-nano) / 1e9),
		work:     float64(done2-done) / (used2 - used).Seconds(),
		switches: float64(p.Switches()-switched) / d.Seconds(),
	}, errors.Join(err1, err2, ctx.Err())
}

// watcher samples a process while do runs.
type watcher struct {
	name  string
	watch func(ctx context.Context, pid int, do func(context.Context) error) error
}

// watchers returns the engines, and async-profiler where there is a build of it. The first
// one does nothing: it shows how far windows differ by themselves.
func (f *field) watchers() ([]watcher, error) {
	all := []watcher{{"none", func(ctx context.Context, _ int, do func(context.Context) error) error { return do(ctx) }}}
	for _, engine := range []string{"perf", "bpf"} {
		all = append(all, watcher{engine, func(ctx context.Context, pid int, do func(context.Context) error) error {
			o := sampler.ProcessOptions{PID: pid, Interval: 10 * time.Millisecond}
			return jvmEngines[engine].Sample(ctx, o, func(ctx context.Context, _ campaign.Source) error { return do(ctx) },
				func(*ccmap.Sample, *ccmap.Names) {})
		}})
	}
	async, err := f.asyncProfiler()
	if async != "" {
		all = append(all, watcher{asyncName, func(ctx context.Context, pid int, do func(context.Context) error) error {
			return async.record(ctx, pid, f.Path("jvmcost.jfr"), do)
		}})
	}
	return all, err
}

func runJVMCost(ctx context.Context, f *field) error {
	began, load := time.Now(), report.LoadAverage()
	const window = time.Second
	pairs := int(f.window / (2 * window))
	if f.Quick {
		pairs = 2
	}
	watchers, err := f.watchers()
	if err != nil {
		return err
	}
	t := report.Table{Head: []string{"program", "profiler", "speed while sampled / not", "95 % interval", "work for its CPU time, sampled / not", "95 % interval", "thread switches a second, not sampled"}}
	for _, w := range watchers {
		err := f.eachJVM(ctx, func(program int, release, home string) error {
			ratios, err := f.slowdown(ctx, home, program, w, pairs, window)
			if err != nil {
				return fmt.Errorf("by %s: %w", w.name, err)
			}
			row := []string{jvmPrograms[program].what + " on " + release, w.name}
			for _, of := range []func(pace) float64{func(p pace) float64 { return p.speed }, func(p pace) float64 { return p.work }} {
				i := campaign.MedianOf(each(ratios, of))
				row = append(row, report.Number(i.Middle, 3), report.Number(i.Low, 3)+"–"+report.Number(i.High, 3))
			}
			row = append(row, report.Count(campaign.Median(each(ratios, func(p pace) float64 { return p.switches }))))
			t.Row(row...)
			f.Say("%s", strings.Join(row, ", "))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return f.Write(jvmCostPortion, fmt.Sprintf("%s All runs together took %v, after a load average of %.1f. Medians of %d pairs of %v each, with the interval of the sign test.\n\n%s",
		report.Measured(began), after(began), load, pairs, window, t.String()))
}

func each(ratios []pace, of func(pace) float64) []float64 {
	values := make([]float64, len(ratios))
	for i, r := range ratios {
		values[i] = of(r)
	}
	return values
}

// slowdown returns the paces of a program while it is sampled every 10 ms, divided by those
// of the window before or after, and the switches of that window.
func (f *field) slowdown(ctx context.Context, home string, program int, w watcher, pairs int, window time.Duration) ([]pace, error) {
	var said rounds
	running, err := f.startJVM(ctx, home, program, &said)
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	const warm, settle = 10 * time.Second, 2 * time.Second // attaching reads symbols, and the first stacks names
	if _, err := said.pace(ctx, running, warm); err != nil {
		return nil, err
	}
	var ratios []pace
	for i := range pairs {
		var bare, sampled pace
		for turn := range 2 {
			if (i+turn)%2 == 0 {
				bare, err = said.pace(ctx, running, window)
			} else {
				err = w.watch(ctx, running.PID(), func(ctx context.Context) error {
					if _, err := said.pace(ctx, running, settle); err != nil {
						return err
					}
					sampled, err = said.pace(ctx, running, window)
					return err
				})
			}
			if err != nil {
				return nil, err
			}
		}
		ratios = append(ratios, pace{sampled.speed / bare.speed, sampled.work / bare.work, bare.switches})
	}
	return ratios, nil
}
