package perf

import (
	"errors"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// The last reading stands when the clock is no more, has gone back, or is that of
// another program.
func TestLedgerKeepsItsLastReading(t *testing.T) {
	t.Parallel()
	now := process.CPUTimes{All: time.Second}
	var failure error
	clock := func() (process.CPUTimes, error) { return now, failure }
	l := process.NewLedger(clock, false, 7)
	d := &drainer{counts: new(counts), ledger: l}
	if got := d.counts.loss(); got != (ccmap.Loss{}) {
		t.Errorf("before a reading: %+v", got)
	}
	now.All = 3 * time.Second
	d.balance(d.ledger.Read())
	want := ccmap.Loss{Clock: 2 * time.Second, ClockTick: 7, Unaccounted: 2 * time.Second}
	for _, change := range []func(){
		func() {},
		func() { l.Seen, failure = time.Second, errors.New("no such process") },
		func() { failure, now.All = nil, time.Millisecond },
		func() { d.replaced, now.All = true, time.Minute },
		func() {
			d.replaced, failure = false, errors.New("not permitted")
			d.ledger = process.NewLedger(clock, false, 7)
		},
	} {
		change()
		d.balance(d.ledger.Read())
		if got := d.counts.loss(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestTimeAddsUp: samples and what is unaccounted for make up the CPU time that the
// parent of the target is told, however much was lost: here the time of threads
// without descriptors.
func TestTimeAddsUp(t *testing.T) {
	t.Parallel()
	for _, missing := range []bool{false, true} {
		g := start(t, build(t, "workload"), "threads", "16")
		s, sink := attach(t, g.pid(), Options{})
		before, err := process.ReadCPUTimes(g.pid())
		if err != nil {
			t.Fatal(err)
		}
		if missing {
			s.threads.maxFDs = s.threads.fds
		}
		g.proceed(t)
		samples, _ := collect(t, s, sink)
		used := g.wait(t) - before.All
		var seen time.Duration
		for _, smp := range samples {
			seen += time.Duration(smp.Weight)
		}
		stats := s.Stats()
		if got := seen + stats.Loss.Unaccounted; got != stats.Loss.Clock {
			t.Errorf("samples stand for %v, %v are unaccounted for: that makes %v, and not %v", seen, stats.Loss.Unaccounted, got, stats.Loss.Clock)
		}
		if !stats.KernelTime && (stats.Loss.Clock <= 0 || stats.Loss.Clock > used+before.All || stats.Loss.ClockTick <= 0) {
			t.Errorf("user time %v in ticks of %v, the parent is told %v", stats.Loss.Clock, stats.Loss.ClockTick, used)
		}
		if stats.KernelTime && (stats.Loss.Clock < used || stats.Loss.Clock > used+before.All || stats.Loss.ClockTick != 0) {
			t.Errorf("the clock says %v in ticks of %v, the parent is told %v", stats.Loss.Clock, stats.Loss.ClockTick, used)
		}
		if missing && stats.Loss.Unaccounted < used/4 {
			t.Errorf("%v of %v are unaccounted for, though no thread that works could be sampled", stats.Loss.Unaccounted, used)
		}
		if warned := stats.Warning != ""; warned && !missing {
			t.Errorf("warning %q", stats.Warning)
		}
		t.Logf("missing %t: used %v, loss %+v, seen %v, warning %q", missing, used, stats.Loss, seen, stats.Warning)
	}
}
