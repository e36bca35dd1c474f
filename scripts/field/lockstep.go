package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign lockstep samples programs with two alternating phases of known CPU times,
// at runtime/pprof's interval, too.
const lockstepPortion report.Portion = "scripts/field, lockstep"

const (
	lockstepInterval = 10 * time.Millisecond
	lockstepRuns     = 20 // even, for chiSquareTail
	lockstepTime     = 4 * time.Second
)

// phases is a program of two phases.
type phases [2]time.Duration

var phasePairs = []phases{
	{5 * time.Millisecond, 5 * time.Millisecond},
	{10 * time.Millisecond, 10 * time.Millisecond},
	{3100 * time.Microsecond, 7300 * time.Microsecond},
	{20 * time.Millisecond, 20100 * time.Microsecond},
}

func (p phases) String() string {
	ms := func(d time.Duration) string { return fmt.Sprint(float64(d) / 1e6) }
	return ms(p[0]) + " + " + ms(p[1]) + " ms"
}

// shares is one profiler's answer, run by run.
type shares struct {
	first []float64 // of the first phase, 0 to 1
	chi   float64   // sum of the squared errors, in standard deviations
	seen  []float64 // CPU time found, as a part of the time used
}

// add notes a run: CPU time found and used, by phase, and its effective sample size.
func (s *shares) add(found, used [2]float64, effective float64) {
	share, truth := found[0]/(found[0]+found[1]), used[0]/(used[0]+used[1])
	s.first = append(s.first, share)
	s.chi += (share - truth) * (share - truth) * effective / (truth * (1 - truth))
	s.seen = append(s.seen, (found[0]+found[1])/(used[0]+used[1]))
}

// chance is the probability that independent samples are as far off.
func (s *shares) chance() float64 { return chiSquareTail(s.chi, len(s.first)) }

// chiSquareTail returns the probability that a χ² of an even number of degrees of freedom
// exceeds x.
func chiSquareTail(x float64, freedom int) float64 {
	term, sum := 1.0, 0.0
	for i := range freedom / 2 {
		if i > 0 {
			term *= x / 2 / float64(i)
		}
		sum += term
	}
	return math.Exp(-x/2) * sum
}

func (s *shares) cells() []string {
	return []string{
		fmt.Sprintf("%s–%s", report.Percent(100*slices.Min(s.first)), report.Percent(100*slices.Max(s.first))),
		report.Number(s.chi, 1), probability(s.chance()),
	}
}

// probability prints a small probability as a bound.
func probability(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return report.Number(p, 4)
}

// pair is a program and the answers of two profilers.
type pair struct {
	phases
	truth         float64
	ccmapd, pprof shares
}

func runLockstep(ctx context.Context, f *field) error {
	if err := f.buildClocked(ctx); err != nil {
		return err
	}
	runs, began := lockstepRuns, time.Now()
	if f.Quick {
		runs = 2
	}
	pairs := make([]pair, len(phasePairs))
	errs := make([]error, len(phasePairs))
	var programs sync.WaitGroup
	for i, p := range phasePairs {
		pairs[i].phases = p
		programs.Go(func() {
			for run := 0; run < runs && errs[i] == nil; run++ {
				errs[i] = pairs[i].measure(ctx, f, fmt.Sprintf("phases-%d.pb.gz", i))
				f.Say("%v: run %d of %d", p, run+1, runs)
			}
		})
	}
	programs.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	f.Say("took %v", after(began))
	least := 1.0
	for _, p := range pairs {
		least = min(least, p.ccmapd.chance())
	}
	return errors.Join(f.Write(lockstepPortion, lockstepReport(pairs, runs, began)), together(least, len(pairs)))
}

// together is the verdict on a number of comparisons. It returns an error if the least of
// their chances is below the share that 99 % for all of them leaves for one (Bonferroni).
func together(least float64, comparisons int) error {
	if most := 0.01 / float64(comparisons); least < most {
		return fmt.Errorf("a comparison has a chance of %.2g, and each of %d must have %.2g", least, comparisons, most)
	}
	return nil
}

// measure runs the program once, under both profilers at once.
func (p *pair) measure(ctx context.Context, f *field, file string) error {
	file = f.Path(file)
	var found [2]float64
	var squares float64
	said, err := f.sampleClocked(ctx, campaign.Perf, sampler.ProcessOptions{Interval: lockstepInterval, Watchpoints: -1}, func(s *ccmap.Sample, names []string) {
		if i := phaseOf(func(name string) bool { return slices.Contains(names, name) }); i >= 0 {
			found[i] += float64(s.Weight)
			squares += float64(s.Weight) * float64(s.Weight)
		}
	}, "phases", p.phases[0].String(), p.phases[1].String(), lockstepTime.String(), file)
	if err != nil {
		return err
	}
	var used [2]float64
	if _, err := fmt.Sscan(said, &used[0], &used[1]); err != nil {
		return fmt.Errorf("read the phases' CPU times from %q: %w", said, err)
	}
	sum := found[0] + found[1]
	p.ccmapd.add(found, used, sum*sum/squares)
	p.truth = used[0] / (used[0] + used[1])
	return p.addPprof(file, used)
}

// addPprof notes the answer of runtime/pprof.
func (p *pair) addPprof(file string, used [2]float64) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	prof, err := profile.Parse(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	var found [2]float64
	var samples float64
	for _, s := range prof.Sample {
		if i := phaseOf(func(name string) bool { return calledBy(s, name) }); i >= 0 {
			samples += float64(s.Value[0])
			found[i] += float64(s.Value[1])
		}
	}
	p.pprof.add(found, used, samples)
	return nil
}

// phaseOf returns the phase of a stack, or -1.
func phaseOf(has func(name string) bool) int {
	return slices.IndexFunc([]string{"main.first", "main.second"}, has)
}

func calledBy(s *profile.Sample, name string) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(line profile.Line) bool { return line.Function != nil && line.Function.Name == name })
	})
}

func lockstepReport(pairs []pair, runs int, began time.Time) string {
	t := report.Table{Head: []string{
		"phases", "truth, % in the first", "`runtime/pprof`, least and most %", "χ²", "chance",
		"ccmapd, least and most %", "χ²", "chance", "CPU time seen, %",
	}}
	for _, p := range pairs {
		seen := 0.0
		for _, part := range p.ccmapd.seen {
			seen += 100 * part / float64(runs)
		}
		t.Row(slices.Concat([]string{p.String(), report.Percent(100 * p.truth)}, p.pprof.cells(), p.ccmapd.cells(), []string{report.Percent(seen)})...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s All runs together took %v.\n\n", report.Measured(began), after(began))
	fmt.Fprintf(&b, "%d runs of each program, %v of CPU time, both profilers at once, every %v.\n", runs, lockstepTime, lockstepInterval)
	fmt.Fprintf(&b, "χ² is the sum of squared errors in standard deviations of as many independent samples, about %d if they are;\n", runs)
	fmt.Fprintf(&b, "chance is the probability that independent samples are that far off. Together they are, at 99 %%, where each is above %.4f.\n\n", 0.01/float64(len(pairs)))
	b.WriteString(t.String())
	return b.String()
}
