package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/manager"
	threads "github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

const (
	warmPortion report.Portion = "scripts/accuracy, second runs"

	warmRounds   = 6                     // of an execution
	warmInterval = 10 * time.Millisecond // of the compared runs
	coldInterval = time.Millisecond      // of the run that the second one knows

	// A method is trusted after so many samples, if nothing is known of it. Of those, the ones with leastShare of all
	// time are looked at.
	trustedSamples = 30
	leastShare     = 0.01
)

// warmResult is a guest's second run beside its first one.
type warmResult struct {
	name                   string
	used, functions        int // functions that an earlier run knows, and those of them that go without something
	entries, exits, calls  int // that are left out
	trustedCold            float64
	trustedWarm            float64
	again, cold, warm      float64 // CPU time against plain wazero, in percent
	overlapCold, overlapIn float64 // contexts by time against the exact profile, in percent
}

// runWarm measures second runs.
func runWarm(ctx context.Context, c config) error {
	began, load := time.Now(), report.LoadAverage()
	var all []warmResult
	for _, g := range guests.Real(warmRounds) {
		if !c.Wants(g.Name) || c.Quick && g.Name != "go-eval" {
			continue
		}
		c.Say("%s", g.Name)
		loaded, err := loadGuests(ctx, []guests.Guest{g})
		if err != nil {
			return err
		}
		r, err := measureWarm(ctx, c, loaded[0])
		if err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		all = append(all, r)
	}
	return c.Write(warmPortion, warmReport(began, load, all))
}

func measureWarm(ctx context.Context, c config, g loadedGuest) (warmResult, error) {
	r := warmResult{name: g.Name}
	exact, err := execute(ctx, g, wasm.Options{Exact: true}, 0, nil, nil)
	if err != nil {
		return r, err
	}
	part := max(c.guestTime/12, 3*time.Second)
	first, err := execute(ctx, g, sampledEvery(coldInterval, nil), part, nil, nil)
	if err != nil {
		return r, err
	}
	known, err := knownBy(first.profile)
	if err != nil {
		return r, err
	}
	second, err := execute(ctx, g, sampledEvery(coldInterval, known), part, nil, nil)
	if err != nil {
		return r, err
	}
	for i, run := range []guestRun{first, second} {
		t, err := hold(run.profile, exact.profile, compare.ByTime, nil)
		if err != nil {
			return r, err
		}
		*[]*float64{&r.overlapCold, &r.overlapIn}[i] = t.contexts.Percent
	}
	r.count(second.uses)
	r.trustedCold, r.trustedWarm = untilTrusted(first.profile, nil), untilTrusted(second.profile, second.uses)
	known, err = knownBy(first.profile)
	if err != nil {
		return r, err
	}
	return r, r.measureCost(ctx, c, g, known)
}

// sampledEvery returns the options of a run, in mode 2 if something is known.
func sampledEvery(interval time.Duration, known *threads.Cached) wasm.Options {
	return wasm.Options{Options: threads.Options{Interval: interval, Cached: known}, CollectAtSamples: true, Light: known != nil}
}

// knownBy reads a profile as the next run does, out of a file.
func knownBy(s *ccmap.Snapshot) (*threads.Cached, error) {
	var file bytes.Buffer
	if err := export.Write(&file, export.JSON, s); err != nil {
		return nil, err
	}
	m, _, err := export.Read(&file, export.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return threads.ReadCachedProfile(nil, m.Snapshot())
}

func (r *warmResult) count(uses []wasm.CachedUse) {
	for _, u := range uses {
		if u.Reason != "" {
			continue
		}
		r.used++
		if u.Entry || u.Exits || u.Calls > 0 {
			r.functions++
		}
		if u.Entry {
			r.entries++
		}
		if u.Exits {
			r.exits++
		}
		r.calls += u.Calls
	}
}

// untilTrusted returns the number of samples until each method with 1 % of the time is trusted: 30 of its own, or 30 in
// all if an earlier run knows it, for these can say that it is another program now.
func untilTrusted(s *ccmap.Snapshot, uses []wasm.CachedUse) float64 {
	known := make(map[ccmap.Method]bool)
	for _, u := range uses {
		known[identity(u.Method)] = u.Reason == ""
	}
	samples, all := 1.0*trustedSamples, float64(s.Total().Samples)
	for m := range s.Methods() {
		if share := float64(m.Cumulative().Samples) / all; share >= leastShare && !known[identity(m.Method())] {
			samples = max(samples, trustedSamples/share)
		}
	}
	return samples
}

// costWay is a guest that is compiled in one way, on a runtime of its own.
type costWay struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	session  *manager.Session // nil: it is plain
}

func newCostWay(ctx context.Context, g loadedGuest, o *wasm.Options) (w costWay, err error) {
	w.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2|experimental.CoreFeaturesTailCall))
	compile := w.runtime.CompileModule
	if o != nil {
		p := wasm.New(w.runtime, *o)
		if w.session, err = manager.Start(ctx, manager.Config{Source: p, FixedInterval: true}); err != nil {
			return w, err
		}
		compile = p.CompileModule
	}
	if w.compiled, err = compile(ctx, g.binary); err != nil {
		return w, err
	}
	return w, guests.Host(ctx, w.runtime, w.compiled)
}

func (w costWay) close(ctx context.Context) (err error) {
	if w.session != nil {
		_, err = w.session.Stop()
	}
	return errors.Join(err, w.runtime.Close(ctx))
}

// measureCost runs a guest plain, plain again, sampled, and sampled in mode 2, in turn.
func (r *warmResult) measureCost(ctx context.Context, c config, g loadedGuest, known *threads.Cached) (err error) {
	cold, warm := sampledEvery(warmInterval, nil), sampledEvery(warmInterval, known)
	cold.CollectAtSamples, warm.CollectAtSamples = false, false // one goroutine computes at a time
	var ways []costWay
	defer func() {
		for _, w := range ways {
			err = errors.Join(err, w.close(ctx))
		}
	}()
	for _, o := range []*wasm.Options{nil, nil, &cold, &warm} {
		w, err := newCostWay(ctx, g, o)
		if w.runtime != nil {
			ways = append(ways, w)
		}
		if err != nil {
			return err
		}
	}
	ratios := make([][]float64, len(ways))
	for turn := range max(c.pairs/4, 2) {
		spent := make([]time.Duration, len(ways))
		for i := range ways {
			at := (i + turn) % len(ways)
			if spent[at], err = g.cpuTime(ctx, ways[at]); err != nil {
				return err
			}
		}
		for i := range ways {
			ratios[i] = append(ratios[i], 100*(float64(spent[i])/float64(spent[0])-1))
		}
	}
	for i, to := range []*float64{&r.again, &r.cold, &r.warm} {
		*to = medianOf(ratios[i+1])
	}
	return nil
}

func medianOf(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// cpuTime executes a guest once, and returns the CPU time of its thread.
func (g loadedGuest) cpuTime(ctx context.Context, w costWay) (time.Duration, error) {
	runtime.GC() // garbage of earlier runs
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadTime()
	if err != nil {
		return 0, err
	}
	if err := g.once(ctx, w.runtime, w.compiled); err != nil {
		return 0, err
	}
	after, err := threadTime()
	return after - before, err
}

func threadTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

// warmReport returns the portion of the page.
func warmReport(began time.Time, load float64, all []warmResult) string {
	t := &report.Table{Head: []string{"guest", "functions known", "of them lighter", "polls at entries", "at exits", "calls left out",
		"samples until trusted, cold", "warm", "plain again, %", "cold, %", "warm, %", "contexts, cold", "warm"}}
	within := 0
	for _, r := range all {
		if r.warm <= 3 {
			within++
		}
		t.Row(r.name, fmt.Sprint(r.used), fmt.Sprint(r.functions), fmt.Sprint(r.entries), fmt.Sprint(r.exits), fmt.Sprint(r.calls),
			report.Number(r.trustedCold, 0), report.Number(r.trustedWarm, 0), report.Number(r.again, 1), report.Number(r.cold, 1),
			report.Number(r.warm, 1), report.Percent(r.overlapCold), report.Percent(r.overlapIn))
	}
	return strings.TrimSuffix(fmt.Sprintf("## Second runs, in mode 2\n\n%s It took %s; the load average before was %s. Second runs within 3 %%: %d of %d.\n\n%s",
		report.Measured(began), report.Seconds(time.Since(began).Seconds()), report.Number(load, 1), within, len(all), t.String()), "\n")
}
