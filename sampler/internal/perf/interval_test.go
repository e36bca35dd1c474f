package perf

import (
	"context"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
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

// checkWeights wants the samples of a workload with one busy goroutine to stand for no more time than passed between two
// changes, and since the sample before: the first one stands for what ran since then. On a busy machine threads take
// turns with the goroutine. A thread's first sample stands for a whole period, of which a part may have run before, and
// weights follow the target's clock by up to a tenth.
func checkWeights(t *testing.T, samples []enginetest.Sample, changes []change) {
	t.Helper()
	for i, c := range changes[1 : len(changes)-1] {
		begin, end := c.at-int64(4*time.Millisecond), changes[i+2].began
		var sum, before int64
		threads := make(map[uint32]time.Duration) // the weights of their samples
		for _, smp := range samples {
			switch {
			case !smp.Has("main.work"):
			case smp.Time <= c.at:
				before = max(before, smp.Time) // on a busy machine perhaps long ago
			case smp.Time < end:
				sum += smp.Weight
				threads[smp.OSThread] += time.Duration(smp.Weight)
			}
		}
		if before > 0 {
			begin = min(begin, before)
		}
		firsts := float64(len(threads)) * (1 + perfevent.MostSpread) * float64(c.interval)
		if most := 1.1 * (float64(end-begin) + firsts); float64(sum) > most {
			t.Errorf("samples within %v at %v stand for %v: %v", time.Duration(end-begin), c.interval, time.Duration(sum), threads)
		}
	}
}

// TestSlowChange: while the interval changes, time counts once, however long it takes to close an event: that waits
// for a process that is being started.
func TestSlowChange(t *testing.T) { // other tests start processes
	const long, short, times = 2 * time.Millisecond, 500 * time.Microsecond, 6 // the busy thread is not always the first one
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "20", "80")
	g.Pin(t)
	s, sink := attach(t, g.PID(), Options{Interval: long, Watchpoints: -1})
	ended, changed := make(chan error), make(chan error)
	go func() {
		_, err := s.Run(context.Background())
		ended <- err
	}()
	g.Proceed(t)
	var samples []enginetest.Sample
	lives := awaitNewer(t, 0, sink, &samples, ended)
	changes := []change{{}}
	for i := 0; i < times && lives; i++ {
		next := short
		if i%2 != 0 {
			next = long
		}
		began := perfevent.Monotonic()
		whileForking(func() {
			go func() { changed <- s.SetInterval(next) }()
			used, err := process.ReadCPUTimes(g.PID())
			now, deadline := used, time.Now().Add(5*time.Second) // it may end
			for err == nil && now.All < used.All+30*time.Millisecond && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond) // no sample is taken meanwhile
				now, err = process.ReadCPUTimes(g.PID())
			}
		})
		if err := <-changed; err != nil {
			t.Fatal(err)
		}
		at := perfevent.Monotonic()
		changes = append(changes, change{began, began, long})
		changes = append(changes, change{at, at, long})
		lives = awaitNewer(t, at, sink, &samples, ended)
	}
	if lives {
		awaitNewer(t, math.MaxInt64, sink, &samples, ended) // its end
	}
	if len(changes) < 4 {
		t.Fatalf("the target has ended within %d changes", len(changes)/2)
	}
	checkWeights(t, samples, changes)
	g.Wait(t)
}

// whileForking calls f while no event can be closed.
func whileForking(f func()) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	f()
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
