package main

import (
	"bytes"
	"context"
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

// speed returns how much the program does in a time, a second.
func (r *rounds) speed(ctx context.Context, d time.Duration) float64 {
	done, nano := r.last()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	done2, nano2 := r.last()
	return float64(done2-done) / (float64(nano2-nano) / 1e9)
}

func runJVMCost(ctx context.Context, f *field) error {
	began := time.Now()
	const window = time.Second
	pairs := int(f.window / (2 * window))
	if f.Quick {
		pairs = 2
	}
	t := report.Table{Head: []string{"program", "engine", "speed while sampled / not", "95 % interval"}}
	for _, engine := range []string{"perf", "bpf"} {
		err := f.eachJVM(ctx, func(program int, release, home string) error {
			ratios, err := f.slowdown(ctx, home, program, jvmEngines[engine], pairs, window)
			if err != nil {
				return fmt.Errorf("by %s: %w", engine, err)
			}
			i := campaign.MedianOf(ratios)
			row := []string{jvmPrograms[program].what + " on " + release, engine, report.Number(i.Middle, 3), report.Number(i.Low, 3) + "–" + report.Number(i.High, 3)}
			t.Row(row...)
			f.Say("%s", strings.Join(row, ", "))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return f.Write(jvmCostPortion, fmt.Sprintf("%s All runs together took %v, after a load average of %.1f. Medians of %d pairs of %v each, with the interval of the sign test.\n\n%s",
		report.Measured(began), after(began), report.LoadAverage(), pairs, window, t.String()))
}

// slowdown returns the speeds of a program while it is sampled every 10 ms, divided by those
// of the window before or after.
func (f *field) slowdown(ctx context.Context, home string, program int, open campaign.Engine, pairs int, window time.Duration) ([]float64, error) {
	var said rounds
	running, err := f.startJVM(ctx, home, program, &said)
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	const warm, settle = 10 * time.Second, 2 * time.Second // attaching reads symbols, and the first stacks names
	said.speed(ctx, warm)
	var ratios []float64
	for i := range pairs {
		var bare, sampled float64
		for turn := range 2 {
			if (i+turn)%2 == 0 {
				bare = said.speed(ctx, window)
				continue
			}
			err := open.Sample(ctx, sampler.ProcessOptions{PID: running.PID(), Interval: 10 * time.Millisecond}, func(ctx context.Context, _ campaign.Source) error {
				said.speed(ctx, settle)
				sampled = said.speed(ctx, window)
				return nil
			}, func(*ccmap.Sample, *ccmap.Names) {})
			if err != nil {
				return nil, err
			}
		}
		ratios = append(ratios, sampled/bare)
	}
	return ratios, ctx.Err()
}
