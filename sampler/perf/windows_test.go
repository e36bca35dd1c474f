package perf

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/enginetest"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/taker"
)

// tick is the step of simulated time.
const tick = 4 * time.Millisecond

// simulated is a target and its windows on a clock of their own.
type simulated struct {
	windows
	now      time.Time
	load     func(at time.Duration) (kind int, cpu time.Duration) // in a tick
	used     [3]time.Duration                                     // CPU time of each kind
	seen     [3]float64                                           // weights of its samples, ns
	inWindow time.Duration
	changes  int
}

func (s *simulated) sum() (clock time.Duration, seen float64) {
	for i := range s.used {
		clock += s.used[i]
		seen += s.seen[i]
	}
	return clock, seen
}

// run lets time pass. Windows begin and end up to some ticks late.
func (s *simulated) run(length time.Duration) {
	late := 0
	for at := time.Duration(0); at < length; at += tick {
		s.now = s.now.Add(tick)
		kind, cpu := s.load(at)
		s.used[kind] += cpu
		if !s.off {
			s.inWindow += tick
			s.seen[kind] += float64(cpu) * s.factor
		}
		if late--; late > 0 {
			continue
		}
		switch change := s.turn(s.now); change {
		case windowOpened:
			clock, seen := s.sum()
			s.begin(s.now, leastWindow, clock, clock-time.Duration(seen))
			s.changes++
			late = rand.IntN(3)
		case windowClosed:
			s.ended, _ = s.sum()
			s.changes++
			late = rand.IntN(3)
		}
	}
}

// TestWindowsAreUnbiased: the weights in windows are right for work that comes all the time, for
// work that comes in bursts, and for work whose rhythm is a second, and so is their sum.
func TestWindowsAreUnbiased(t *testing.T) {
	t.Parallel()
	for _, throughout := range []float64{0.016, 0.08, 0.8} {
		s := &simulated{windows: newWindows(0.01), now: time.Now()}
		burst := time.Duration(0)
		s.load = func(at time.Duration) (int, time.Duration) {
			if burst -= tick; burst <= -900*tick { // a tenth of the time has most of the load
				burst = time.Duration(50+rand.IntN(100)) * tick
			}
			switch {
			case burst > 0:
				return 0, tick
			case at%time.Second < time.Second/2:
				return 1, tick / 10
			}
			return 2, tick / 10
		}
		s.pay(taker.Price{Lately: throughout, Throughout: throughout}, s.now)
		const cycles = 20000
		length := time.Duration(cycles * float64(leastWindow) / s.share)
		s.run(length)
		clock, seen := s.sum()
		if off := seen/float64(clock) - 1; math.Abs(off) > 0.01 {
			t.Errorf("price %v: weights are %+.2f %% off the clock", throughout, 100*off)
		}
		if share := float64(s.inWindow) / float64(length); math.Abs(share/s.share-1) > 0.05 {
			t.Errorf("price %v: %v of the time is in windows, want %v", throughout, share, s.share)
		}
		for kind, used := range s.used {
			is, want := s.seen[kind]/seen, float64(used)/float64(clock)
			if math.Abs(is-want) > 0.04 {
				t.Errorf("price %v: kind %d has %.3f of the weights, and %.3f of the time", throughout, kind, is, want)
			}
		}
		t.Logf("price %v: share %.4f, %d changes, weights %.4f of the clock", throughout, s.share, s.changes, seen/float64(clock))
	}
}

// TestWindowsOnlyOverBudget: within the budget nothing changes, and over it the share of the time
// makes the price right.
func TestWindowsOnlyOverBudget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		budget float64
		price  taker.Price
		share  float64
	}{
		{0.01, taker.Price{Lately: 0.01, Throughout: 0.05}, 1},
		{0, taker.Price{Lately: 0.5, Throughout: 0.5}, 1},
		{-1, taker.Price{Lately: 0.5, Throughout: 0.5}, 1},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04}, 0.2},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04, Calls: 0.004}, 0.1},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04, SoFar: 0.02}, 0.1},
		{0.01, taker.Price{Lately: 9, Throughout: 9}, leastShare},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04, Calls: 1}, leastShare},
	} {
		w := newWindows(c.budget)
		w.pay(c.price, now)
		change := w.turn(now)
		if math.Abs(w.share-c.share) > 1e-9 || (change == windowClosed) != (c.share < 1) || c.share == 1 && w.factor != 1 {
			t.Errorf("%+v of %v: share %v, factor %v, change %d", c.price, c.budget, w.share, w.factor, change)
		}
		w.pay(taker.Price{Throughout: 0.001}, now)
		if change := w.turn(now); w.off || (change == windowOpened) != (c.share < 1) {
			t.Errorf("%+v of %v: off %t, change %d when the target is cheap again", c.price, c.budget, w.off, change)
		}
	}
}

// TestWindows: where switches cost too much, samples come from windows, stand for all of the
// time, and cost what is permitted.
func TestWindows(t *testing.T) {
	t.Parallel()
	const budget = 0.02
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "pingpong", "6000")
	s, sink := attach(t, g.PID(), Options{Interval: time.Millisecond, MaxOverhead: budget})
	s.drainer.Costs = perfevent.Costs{Sample: 2 * time.Microsecond, Switch: 500 * time.Nanosecond, Watch: 100 * time.Nanosecond}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	g.Proceed(t)
	g.Line(t)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	judged := 0
	for _, smp := range enginetest.Drained(sink) {
		sum += time.Duration(smp.Weight)
		if smp.Top != ccmap.TopUnknown {
			judged++
		}
	}
	st := s.Stats()
	o := st.Overhead
	if o.Sampled <= 0 || o.Sampled > 0.7 {
		t.Errorf("%v of the time was sampled", o.Sampled)
	}
	if total := float64(o.Total()) / float64(o.Of); total > 1.5*budget {
		t.Errorf("the overhead is %v", total)
	}
	if off := float64(sum)/float64(o.Of) - 1; math.Abs(off) > 0.3 {
		t.Errorf("samples stand for %v, the target used %v", sum, o.Of)
	}
	if sum+st.Loss.Unaccounted != st.Loss.Clock {
		t.Errorf("%v and %v unaccounted for are not %v", sum, st.Loss.Unaccounted, st.Loss.Clock)
	}
	t.Logf("%v; samples stand for %v of %v, %d were judged", o, sum, o.Of, judged)
}
