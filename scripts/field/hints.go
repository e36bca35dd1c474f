package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign hints gives hints to the compiler of a JVM that runs Jobs.java, takes them back, and
// asks the program how much CPU time an element takes before, with and after them.
const hintsPortion report.Portion = "scripts/field, hints"

// Times of a trial.
const (
	hintsWarm   = 5 * time.Second
	hintsWindow = 2 * time.Second
	hintsSettle = 3 * time.Second // after a compilation
	hintsWait   = time.Minute     // for the compilations of all roots
)

// hintsTrial is what a JVM's program has said: CPU time of an element, ns.
type hintsTrial struct {
	before, again, with, withdrawn float64
	taken, notNeeded, hints        int
}

func runHints(ctx context.Context, f *field) error {
	began := time.Now()
	home := glob(jdks[0].home)
	if len(home) == 0 {
		return errNoJDK
	}
	if err := f.compileJava(ctx, home[0]); err != nil {
		return err
	}
	trials := 10
	if f.Quick {
		trials = 1
	}
	t := report.Table{Head: []string{
		"JDK", "hints taken", "not needed", "ns an element before", "once more / before", "with the hints / before", "after them / before",
	}}
	for _, jdk := range jdks {
		for _, home := range glob(jdk.home) {
			if !f.Wants(jdk.release) {
				continue
			}
			all, err := f.hintsTrials(ctx, home, trials)
			if err != nil {
				return fmt.Errorf("JDK %s: %w", jdk.release, err)
			}
			t.Row(hintsCells(jdk.release, all)...)
		}
	}
	return f.Write(hintsPortion, fmt.Sprintf("%s All runs together took %v, after a load average of %.1f. Medians of %d JVMs each, with the interval of the sign test; windows of %v.\n\n%s",
		report.Measured(began), after(began), report.LoadAverage(), trials, hintsWindow, t.String()))
}

// hintsTrials finds hints in the first JVM, and tries them in each.
func (f *field) hintsTrials(ctx context.Context, home string, n int) (all []hintsTrial, err error) {
	var hints []hotspot.Hint
	for range n {
		t, err := f.hintsTrial(ctx, home, &hints)
		if err != nil {
			return nil, err
		}
		f.Say("%.3f ns, once more %.3f, with %d of %d hints (%d not needed) %.3f, after them %.3f",
			t.before, t.again, t.taken, t.hints, t.notNeeded, t.with, t.withdrawn)
		all = append(all, t)
	}
	return all, nil
}

func (f *field) hintsTrial(ctx context.Context, home string, hints *[]hotspot.Hint) (t hintsTrial, err error) {
	in, tell, err := os.Pipe()
	if err != nil {
		return t, err
	}
	defer tell.Close()
	defer in.Close()
	var said rounds
	running, err := campaign.Launch{
		Command: []string{filepath.Join(home, "bin/java"), "-cp", f.classPath(nil), "Jobs"}, Ready: isReady, Stdin: in, Stdout: &said,
	}.Start(ctx)
	if err != nil {
		return t, err
	}
	defer running.Stop()
	pause(ctx, hintsWarm)
	if *hints == nil {
		if *hints, err = f.findHints(ctx, running.PID()); err != nil {
			return t, err
		}
	}
	t.before, t.again = said.cost(ctx), said.cost(ctx)
	if err := t.apply(ctx, running.PID(), *hints, tell, &said); err != nil {
		return t, err
	}
	if err := recompile(ctx, tell); err != nil {
		return t, err
	}
	t.withdrawn = said.cost(ctx)
	return t, ctx.Err()
}

// cost returns the CPU time of an element, ns.
func (r *rounds) cost(ctx context.Context) float64 {
	done, nano := r.last()
	pause(ctx, hintsWindow)
	done2, nano2 := r.last()
	return float64(nano2-nano) / float64(done2-done)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// recompile lets the program's jobs be compiled anew.
func recompile(ctx context.Context, tell io.Writer) error {
	_, err := io.WriteString(tell, "go\n")
	pause(ctx, hintsSettle)
	return err
}

// findHints samples the program, and returns the hints of its profile.
func (f *field) findHints(ctx context.Context, pid int) ([]hotspot.Hint, error) {
	profile, file := f.Path("jobs.json"), f.Path("jobs-hints.json")
	for _, arguments := range [][]string{
		{"attach", strconv.Itoa(pid), "-q", "-i", "1ms", "--tune=false", "--max-host-overhead", "0", "-d", "10s", "-o", profile},
		{"hints", profile, "--json", "-o", file},
	} {
		if err := campaign.Command(exec.CommandContext(ctx, f.Ccmapd, arguments...)); err != nil {
			return nil, err
		}
	}
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	hints, err := hotspot.ReadFile(text)
	if err == nil && len(hints) == 0 {
		err = fmt.Errorf("%s has no hints", file)
	}
	return hints, err
}

// apply measures with the hints in force, once the jobs were compiled with them.
func (t *hintsTrial) apply(ctx context.Context, pid int, hints []hotspot.Hint, tell io.Writer, said *rounds) error {
	trial, err := hotspot.Begin(ctx, pid, hints)
	if err != nil {
		return err
	}
	if err = trial.Apply(ctx, nil); err == nil {
		err = recompile(ctx, tell)
	}
	if err != nil {
		return errors.Join(err, trial.End(false))
	}
	select {
	case <-ctx.Done():
	case <-trial.Settled():
	case <-time.After(hintsWait):
	}
	pause(ctx, hintsSettle)
	t.with = said.cost(ctx)
	t.hints = len(hints)
	for _, r := range trial.Results() {
		switch r.Outcome {
		case hotspot.Taken:
			t.taken++
		case hotspot.NotNeeded:
			t.notNeeded++
		}
	}
	return trial.End(false)
}

func hintsCells(release string, all []hintsTrial) []string {
	sum := func(of func(hintsTrial) int) (n int) {
		for _, t := range all {
			n += of(t)
		}
		return n
	}
	median := func(of func(hintsTrial) float64) string {
		var values []float64
		for _, t := range all {
			values = append(values, of(t))
		}
		i := campaign.MedianOf(values)
		return report.Number(i.Middle, 3) + " (" + report.Number(i.Low, 3) + "–" + report.Number(i.High, 3) + ")"
	}
	hints := sum(func(t hintsTrial) int { return t.hints })
	return []string{
		release,
		fmt.Sprintf("%d of %d", sum(func(t hintsTrial) int { return t.taken }), hints),
		strconv.Itoa(sum(func(t hintsTrial) int { return t.notNeeded })),
		median(func(t hintsTrial) float64 { return t.before }),
		median(func(t hintsTrial) float64 { return t.again / t.before }),
		median(func(t hintsTrial) float64 { return t.with / t.before }),
		median(func(t hintsTrial) float64 { return t.withdrawn / t.before }),
	}
}
