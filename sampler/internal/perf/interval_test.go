package perf

import (
	"context"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler"
)

// change is one change of the interval, from when it began to when it had taken
// effect.
type change struct {
	began, at int64
	interval  time.Duration
}

// TestIntervalToAndFro changes the interval across bulkBelow while a source
// samples. Samples keep coming, and their weights are the CPU time that was
// used, within each interval and on the whole.
func TestIntervalToAndFro(t *testing.T) {
	t.Parallel()
	const long, short = 2 * time.Millisecond, 500 * time.Microsecond
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "20", "40")
	g.Pin(t) // one CPU, so that one event samples the one busy thread
	s, sink := attach(t, g.PID(), Options{Interval: long, Watchpoints: -1})
	before, stole := enginetest.CPUTime(t, g.PID()), testrun.Stolen(t)
	ended := make(chan error)
	go func() {
		_, err := s.Run(context.Background())
		ended <- err
	}()
	g.Proceed(t)
	changes := []change{{interval: long}}
	var took time.Duration // of the slowest change
	var samples []enginetest.Sample
	for done := false; !done; {
		next := short
		if changes[len(changes)-1].interval == short {
			next = long
		}
		began := perfevent.Monotonic()
		if err := s.SetInterval(next); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, change{began, perfevent.Monotonic(), next})
		took = max(took, s.Stats().LastChange)
		done = !awaitNewer(t, changes[len(changes)-1].at, sink, &samples, ended)
	}
	used := g.Wait(t) - before
	stole = testrun.Stolen(t) - stole
	samples = append(samples, enginetest.Drained(sink)...)
	checkWeights(t, samples, changes)
	var sum time.Duration
	for _, smp := range samples {
		sum += time.Duration(smp.Weight)
	}
	lost := s.Stats().Loss.Source
	if off := (sum - used).Abs() - stole; off > used/5+time.Duration(lost)*long {
		t.Errorf("weights sum up to %v, the target used %v; %d samples lost", sum, used, lost)
	}
	if len(changes) < 6 {
		t.Errorf("there were samples for %d changes only", len(changes))
	}
	t.Logf("used %v, weights %v, %d samples, %d lost, %d changes, the slowest took %v", used, sum, len(samples), lost, len(changes), took)
}

// awaitNewer collects samples until there is one from after a moment, and so
// every older one has its weight. It returns false when the source has ended.
func awaitNewer(t *testing.T, at int64, sink sampler.Sink, samples *[]enginetest.Sample, ended <-chan error) bool {
	t.Helper()
	for n := len(*samples); n == 0 || (*samples)[n-1].Time <= at; n = len(*samples) {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return false
		case <-time.After(time.Millisecond):
			*samples = append(*samples, enginetest.Drained(sink)...)
		}
	}
	return true
}

// checkWeights wants the samples of a workload with one busy thread to stand for no more time than passed between two
// changes, and since the sample before: the first one stands for what ran since then.
func checkWeights(t *testing.T, samples []enginetest.Sample, changes []change) {
	t.Helper()
	for i, c := range changes[1 : len(changes)-1] {
		begin, end := c.at-int64(4*time.Millisecond), changes[i+2].began
		var sum, before int64
		for _, smp := range samples {
			switch {
			case !smp.Has("main.work"):
			case smp.Time <= c.at:
				before = max(before, smp.Time) // on a busy machine perhaps long ago
			case smp.Time < end:
				sum += smp.Weight
			}
		}
		if before > 0 {
			begin = min(begin, before)
		}
		if sum > end-begin {
			t.Errorf("samples within %v at %v stand for %v", time.Duration(end-begin), c.interval, time.Duration(sum))
		}
	}
}

// Some drains follow on each other at once; many keep to the pace on average.
func TestPacer(t *testing.T) {
	t.Parallel()
	var p pacer
	begin := time.Now()
	now := begin
	for i := range 10 * paceAhead {
		rest := p.rest(now)
		if i < paceAhead && rest != 0 {
			t.Errorf("drain %d waits for %v", i, rest)
		}
		now = now.Add(rest)
	}
	if got, want := now.Sub(begin), 9*paceAhead*pace; got != want {
		t.Errorf("%d drains took %v, want %v", 10*paceAhead, got, want)
	}
	if rest := p.rest(now.Add(pace)); rest != 0 {
		t.Errorf("a drain that keeps the pace waits for %v", rest)
	}
}
