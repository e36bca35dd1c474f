package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign pgo builds programs with profiles of ccmapd, by samples, minimal and by activations, and of
// runtime/pprof, and compares their CPU times for the same work.
const pgoPortion report.Portion = "scripts/field, pgo"

const (
	pgoRounds = 60
	pgoWork   = 500 * time.Millisecond // CPU time of one run without a profile, about
)

// pgoPrograms keep the CPU busy with one module each.
var pgoPrograms = []build{
	{name: "markdown", requires: []string{goldmark}, files: repeated("markdown")},
	{name: "script", requires: []string{"github.com/dop251/goja@v0.0.0-20260917113740-793a2a65c13b"}, files: repeated("script")},
	{name: "minify", requires: []string{"github.com/tdewolff/minify/v2@v2.24.25"}, files: repeated("minify")},
}

// repeated returns the source of a driver that works without a server.
func repeated(name string) map[string]string {
	files := driver(name)
	text, err := drivers.ReadFile(path.Join(driversFolder, "repeat.go"))
	if err != nil {
		panic(err) // it is embedded
	}
	files["serve.go"] = string(text)
	return files
}

// A program is built in these variants, by profiles of one window. Two builds with the
// same profile differ by the noise of the measurement alone.
const (
	withNone = iota
	withPprof
	withPprofAgain
	withCcmapd
	withMinimal
	withActivations
	variants
)

var variantNames = [variants]string{"none", "pprof", "again", "ccmapd", "minimal", "activations"}

// optimized is a program and its variants' results.
type optimized struct {
	name  string
	edges [variants]map[string]float64 // as the compiler's reader finds them in the profile
	used  [variants][]float64          // CPU time in ns, by round
}

func runPGO(ctx context.Context, f *field) error {
	began, rounds := time.Now(), f.rounds
	if f.Quick {
		rounds = 3
	}
	var programs []optimized
	if rounds == 0 {
		f.Say("only making builds and profiles: the next run of the campaign takes them from %s", f.Work)
	}
	for _, b := range pgoPrograms {
		if !f.Wants(b.name) {
			continue
		}
		o, err := f.optimize(ctx, b, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if rounds == 0 {
			continue
		}
		f.Say("%s", strings.Join(o.cells(), " | "))
		programs = append(programs, o)
	}
	if rounds == 0 {
		return nil
	}
	return f.Write(pgoPortion, pgoReport(programs, rounds, began))
}

// optimize profiles a program, and builds and runs its variants.
func (f *field) optimize(ctx context.Context, b build, rounds int) (optimized, error) {
	o := optimized{name: b.name}
	var executables, profiles [variants]string
	var err error
	if executables[withNone], err = f.buildWith(ctx, b, variantNames[withNone], ""); err != nil {
		return o, err
	}
	w, err := f.watched(ctx, executables[withNone], "pgo-"+b.name)
	if err != nil {
		return o, err
	}
	profiles[withPprof], profiles[withPprofAgain], profiles[withCcmapd] = w.peer, w.peer, w.pgo
	for v, flags := range map[int][]string{withMinimal: {"--minimal"}, withActivations: {"--weight", "activations"}} {
		profiles[v] = f.Path("profiles", "pgo-"+b.name, variantNames[v]+".pgo")
		args := append([]string{"pgo", "export", w.file, profiles[v]}, flags...)
		if err := campaign.Command(exec.CommandContext(ctx, f.Ccmapd, args...)); err != nil {
			return o, err
		}
	}
	for v := withPprof; v < variants; v++ {
		if o.edges[v], err = pgoEdges(ctx, profiles[v]); err != nil {
			return o, err
		}
		if executables[v], err = f.buildWith(ctx, b, variantNames[v], profiles[v]); err != nil {
			return o, err
		}
	}
	return o, o.run(ctx, f, executables, rounds)
}

// buildWith builds a program with a profile at go build's usual place.
func (f *field) buildWith(ctx context.Context, b build, variant, profile string) (executable string, err error) {
	b.name = "pgo-" + b.name + "-" + variant
	if profile == "" {
		return f.build(ctx, b)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return "", err
	}
	b.files = maps.Clone(b.files)
	b.files["default.pgo"] = string(text)
	return f.build(ctx, b)
}

// watched returns the window of an earlier campaign, or a new one.
func (f *field) watched(ctx context.Context, executable, name string) (window, error) {
	w := f.newWindow(name)
	w.peer = f.Path("profiles", name, "runtime.pb.gz")
	if _, err := os.Stat(w.peer); err == nil { // it was written last
		return w, nil
	}
	return f.watchBusy(ctx, executable, name)
}

// watchBusy watches a program for a window, while runtime/pprof does so, too.
func (f *field) watchBusy(ctx context.Context, executable, name string) (window, error) {
	var peer bytes.Buffer
	p, err := campaign.Launch{Command: []string{executable}, Ready: isReady, Stdout: &peer}.Start(ctx)
	if err != nil {
		return window{}, err
	}
	defer p.Stop()
	f.Say("watching %s", name)
	w, err := f.watch(ctx, p, name, "", "")
	if err != nil {
		return w, err
	}
	p.Cmd.Process.Signal(os.Interrupt) // if it has ended, wait says why
	if err := p.Wait(); err != nil {
		return w, err
	}
	w.peer = f.Path("profiles", name, "runtime.pb.gz")
	return w, os.WriteFile(w.peer, peer.Bytes(), 0o644)
}

// run lets all variants do the same work in each round, one after another in random
// order.
func (o *optimized) run(ctx context.Context, f *field, executables [variants]string, rounds int) error {
	const few = 20
	used, err := workTime(ctx, executables[withNone], few)
	if err != nil {
		return err
	}
	calls := max(1, int(few*float64(pgoWork)/used))
	const often = 10
	for round := range rounds {
		if round%often == 0 {
			f.Say("running %s: %d of %d rounds", o.name, round, rounds)
		}
		for _, v := range rand.Perm(variants) {
			used, err := workTime(ctx, executables[v], calls)
			if err != nil {
				return err
			}
			o.used[v] = append(o.used[v], used)
		}
	}
	return nil
}

// workTime returns the CPU time in ns of a driver that does its work calls times, with
// one processor, so that the collector finds no idle ones. It includes time in the
// kernel: the kernel knows the sum, but divides it by its ticks.
func workTime(ctx context.Context, executable string, calls int) (float64, error) {
	cmd := exec.CommandContext(ctx, executable, strconv.Itoa(calls))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := campaign.Command(cmd); err != nil {
		return 0, err
	}
	return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), nil
}

// ratio returns the median over the rounds of a variant's CPU time divided by the time
// with runtime/pprof's profile, and its interval.
func (o *optimized) ratio(v int) campaign.Interval {
	ratios := make([]float64, len(o.used[v]))
	for i, used := range o.used[v] {
		ratios[i] = used / o.used[withPprof][i]
	}
	return campaign.MedianOf(ratios)
}

func (o *optimized) cells() []string {
	ratio := func(v int) string {
		i := o.ratio(v)
		return fmt.Sprintf("%.3f (%.3f–%.3f)", i.Middle, i.Low, i.High)
	}
	return []string{
		o.name, ratio(withNone), ratio(withPprofAgain), ratio(withCcmapd), ratio(withMinimal), ratio(withActivations), edgesInCommon(o.edges[withCcmapd], o.edges[withPprof]),
	}
}

func pgoReport(programs []optimized, rounds int, began time.Time) string {
	t := report.Table{Head: []string{
		"program", "without a profile", "`runtime/pprof`'s, built again", "ccmapd's", "minimal", "by activations", "edges of ccmapd's",
	}}
	for _, o := range programs {
		t.Row(o.cells()...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s All took %v; the load average, others' work included, was %.1f at the end.\n\n", report.Measured(began), after(began), report.LoadAverage())
	fmt.Fprintf(&b, "Medians over %d rounds of the CPU time, about %v a run, divided by the time of the build with `runtime/pprof`'s profile; in brackets the 95 %% interval\n", rounds, pgoWork)
	fmt.Fprintf(&b, "by the sign test. Below 1 is faster. Edges are those that `go tool preprofile` finds, of those in that profile, and the weight in common.\n\n")
	b.WriteString(t.String())
	return b.String()
}
