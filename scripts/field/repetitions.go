package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign repetitions samples a program that knows when each of its calls began, and
// compares the verdicts on its samples with these times.
const repetitionsPortion report.Portion = "scripts/field, repetitions"

var repetitionIntervals = []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond}

// repetitionCalls are lengths of calls: some that are hardly ever sampled twice, and some
// that may be.
var repetitionCalls = []struct {
	name        string
	least, most float64 // intervals
}{{"0.2–0.6 intervals", 0.2, 0.6}, {"1–4 intervals", 1, 4}}

// judgingEngine is an engine whose verdicts are compared.
type judgingEngine struct {
	name    string
	engine  campaign.Engine
	budget  float64 // sampler.ProcessOptions.WatchBudget
	samples int     // of a run, approximately
}

// judgingEngines are the engines. Of engine perf every sample has a verdict that can have
// one. Engine bpf judges a third of the samples, so that others are drained in batches, as
// by default.
var judgingEngines = []judgingEngine{{"bpf", campaign.BPF, 0.01, 1200}, {"perf", campaign.Perf, 1, 600}}

// judged counts the samples of one run.
type judged struct {
	samples, truly   int // samples that follow another and are not early; repetitions among them
	known, repeated  int // samples with a verdict; verdicts of repetition
	untrue, overseen int // wrong verdicts of repetition; wrong verdicts of new
}

// calls are the beginnings of calls.
type calls []int64

func readCalls(file string) (calls, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	began := make(calls, len(data)/8)
	for i := range began {
		began[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return began, nil
}

// at returns the number of the call at a time.
func (c calls) at(t int64) int {
	return sort.Search(len(c), func(i int) bool { return c[i] > t })
}

// verdictOn is a sample of the thread that makes the calls.
type verdictOn struct {
	time  int64
	top   ccmap.Repetition
	early bool
	apart bool // between two calls
}

// judge compares verdicts with calls.
func (c calls) judge(samples []verdictOn) (j judged) {
	for i, s := range samples {
		if i == 0 || s.early || s.apart || samples[i-1].apart {
			continue
		}
		repeated := c.at(s.time) == c.at(samples[i-1].time)
		j.samples++
		j.truly += one(repeated)
		if s.top == ccmap.TopUnknown {
			continue
		}
		says := s.top == ccmap.TopRepeated
		j.known++
		j.repeated += one(says)
		j.untrue += one(says && !repeated)
		j.overseen += one(!says && repeated)
	}
	return j
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (j judged) truth() float64 { return float64(j.truly) / float64(j.samples) }
func (j judged) rate() float64  { return float64(j.repeated) / float64(j.known) }

// chance is the probability that verdicts and truth differ as much if both have one rate:
// twice the smaller tail of Fisher's exact test.
func (j judged) chance() float64 {
	below, above := 0.0, 0.0
	all, repeated := j.samples+j.known, j.truly+j.repeated
	for n := max(0, j.known-(all-repeated)); n <= min(j.known, repeated); n++ {
		p := math.Exp(logChoose(repeated, n) + logChoose(all-repeated, j.known-n) - logChoose(all, j.known))
		if n <= j.repeated {
			below += p
		}
		if n >= j.repeated {
			above += p
		}
	}
	return min(1, 2*min(below, above))
}

func logChoose(n, k int) float64 {
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return lg(n) - lg(k) - lg(n-k)
}

func runRepetitions(ctx context.Context, f *field) error {
	if err := f.buildClocked(ctx); err != nil {
		return err
	}
	began := time.Now()
	t := report.Table{Head: []string{
		"engine", "interval", "processors", "calls", "samples", "repetitions, %", "verdicts", "repetitions of them, %", "falsely repeated", "falsely new", "chance",
	}}
	least := 1.0
	for _, load := range []string{"as they are", "kept busy"} {
		if err := f.underLoad(ctx, load == "kept busy", func() error {
			for _, e := range judgingEngines {
				if err := f.repetitionRows(ctx, e, load, &t, &least); err != nil {
					return fmt.Errorf("engine %s: %w", e.name, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s All runs together took %v; the load average, others' work included, was %.1f at the end.\n\n", report.Measured(began), after(began), report.LoadAverage())
	fmt.Fprintf(&b, "Repetitions are counted among all samples, by the times when the program's calls began, and among the verdicts. Chance is the\n")
	fmt.Fprintf(&b, "probability that they differ as much if both are of one rate (Fisher's exact test). Together they agree, at 99 %%, where each is above %.5f.\n\n", 0.01/float64(len(t.Rows)))
	b.WriteString(t.String())
	return errors.Join(f.Write(repetitionsPortion, b.String()), together(least, len(t.Rows)))
}

// underLoad calls do, with all processors kept busy by others if busy.
func (f *field) underLoad(ctx context.Context, busy bool, do func() error) error {
	if busy {
		for range runtime.NumCPU() {
			p, err := campaign.Launch{Command: []string{f.Path("clocked"), "spin"}}.Start(ctx)
			if err != nil {
				return err
			}
			defer p.Stop()
		}
	}
	return do()
}

// repetitionRows adds the rows of one engine and load, and lowers least to the least of
// their chances.
func (f *field) repetitionRows(ctx context.Context, e judgingEngine, load string, t *report.Table, least *float64) error {
	for _, interval := range repetitionIntervals {
		for _, c := range repetitionCalls {
			span := func(part float64) time.Duration { return time.Duration(part * float64(interval)) }
			j, err := f.repetitions(ctx, e, interval, span(c.least), span(c.most))
			if err != nil {
				return err
			}
			f.Say("%s, %v, %s, calls of %s: %+v", e.name, interval, load, c.name, j)
			*least = min(*least, j.chance())
			t.Row(e.name, interval.String(), load, c.name, report.Count(float64(j.samples)), report.Number(100*j.truth(), 2),
				report.Count(float64(j.known)), report.Number(100*j.rate(), 2), report.Count(float64(j.untrue)), report.Count(float64(j.overseen)), probability(j.chance()))
		}
	}
	return nil
}

// repetitions measures calls with lengths from least to most.
func (f *field) repetitions(ctx context.Context, e judgingEngine, interval, least, most time.Duration) (judged, error) {
	samples := e.samples
	if f.Quick {
		samples /= 4
	}
	file, total := f.Path("calls.bin"), time.Duration(samples)*interval
	var verdicts []verdictOn
	o := sampler.ProcessOptions{Interval: interval, WatchBudget: e.budget}
	if _, err := f.sampleClocked(ctx, e.engine, o, func(s *ccmap.Sample, names []string) {
		if slices.Contains(names, "main.calls") {
			top := strings.TrimPrefix(strings.Join(names, ","), ccmap.KernelName+",")
			verdicts = append(verdicts, verdictOn{s.Time, s.Top, s.Early, !strings.HasPrefix(top, "main.work,")})
		}
	}, "calls", least.String(), most.String(), total.String(), file); err != nil {
		return judged{}, err
	}
	slices.SortFunc(verdicts, func(a, b verdictOn) int { return int(a.time - b.time) })
	began, err := readCalls(file)
	return began.judge(verdicts), err
}
