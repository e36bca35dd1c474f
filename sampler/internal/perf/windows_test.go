package perf

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
)

// tick is the step of simulated time.
const tick = 4 * time.Millisecond

// simulated is a target and its windows on a clock of their own.
type simulated struct {
	windows
	now      time.Time
	load     func(at time.Duration) (kind int, cpu time.Duration) // in a tick
	price    func(at time.Duration) taker.Price                   // once a second; nil: it stays
	used     [3]time.Duration                                     // CPU time of each kind
	seen     [3]float64                                           // weights of its samples, ns
	loss     float64                                              // part of the samples
	lost     uint64
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

// tally returns the weights so far: losses are counted where there are any.
func (s *simulated) tally() tally {
	_, seen := s.sum()
	if s.loss > 0 {
		s.lost++
	}
	return tally{time.Duration(seen), s.lost}
}

// settle pays until the share is as a price asks.
func (s *simulated) settle(p taker.Price) {
	for range 20 {
		s.pay(p, unbounded)
	}
}

// unbounded is the largest factor of weights where there are very many samples.
const unbounded = 1e9

// mostFactor is the largest factor after the samples so far, one in each tick of a window.
func (s *simulated) mostFactor() float64 {
	_, seen := s.sum()
	return mostFactor(time.Duration(seen), uint64(s.inWindow/tick), tick)
}

// run lets time pass. Windows begin and end up to some ticks late.
func (s *simulated) run(t *testing.T, length time.Duration) {
	t.Helper()
	late := 0
	for at := time.Duration(0); at < length; at += tick {
		s.now = s.now.Add(tick)
		if s.price != nil && at%time.Second == 0 {
			before := s.share
			if s.pay(s.price(at), s.mostFactor()); s.share < before/2 || s.share > 2*before {
				t.Fatalf("share %v, and then %v", before, s.share)
			}
		}
		kind, cpu := s.load(at)
		s.used[kind] += cpu
		if !s.off {
			s.inWindow += tick
			s.seen[kind] += float64(cpu) * s.factor * (1 - s.loss)
		}
		if late--; late > 0 {
			continue
		}
		switch change := s.turn(s.now); change {
		case windowOpened:
			clock, _ := s.sum()
			s.openWindow(s.now, leastWindow, clock)
			if weight := s.factor * s.drawn; s.drawn != s.share || weight < 0.5 || weight > 2 || s.share == 1 && weight != 1 {
				t.Fatalf("factor %v of share %v, drawn with %v", s.factor, s.share, s.drawn)
			}
			s.changes++
			late = rand.IntN(3)
		case windowClosed:
			clock, _ := s.sum()
			s.end(s.now, clock, s.tally())
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
		s.settle(taker.Price{Lately: throughout, Throughout: throughout})
		const cycles = 20000
		length := time.Duration(cycles * float64(leastWindow) / s.share)
		s.run(t, length)
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

// TestWindowsFollowThePrice: weights are right where the price rises and falls with the load and
// calls are lumpy, and always 1 where there are no pauses.
func TestWindowsFollowThePrice(t *testing.T) {
	t.Parallel()
	s := &simulated{windows: newWindows(0.01), now: time.Now()}
	dear := func(at time.Duration) bool { return at/(100*time.Second)%2 == 1 }
	s.load = func(at time.Duration) (int, time.Duration) {
		if dear(at) {
			return 0, tick
		}
		return 1, tick / 2
	}
	s.price = func(at time.Duration) taker.Price {
		p := taker.Price{Throughout: 0.005}
		if dear(at) {
			p.Throughout = 0.1
		}
		if rand.IntN(5) == 0 {
			p.Calls = 0.004
		}
		p.Lately = p.Calls + p.Throughout
		return p
	}
	always := time.Duration(0)
	load := s.load
	s.load = func(at time.Duration) (int, time.Duration) {
		if s.always() {
			always += tick
			if s.factor != 1 {
				t.Errorf("factor %v without pauses", s.factor)
			}
		}
		return load(at)
	}
	const length = 20000 * time.Second
	s.run(t, length)
	clock, seen := s.sum()
	if off := seen/float64(clock) - 1; math.Abs(off) > 0.01 {
		t.Errorf("weights are %+.2f %% off the clock", 100*off)
	}
	for kind, used := range s.used[:2] {
		if off := s.seen[kind]/float64(used) - 1; math.Abs(off) > 0.03 {
			t.Errorf("kind %d has weights %+.2f %% off its time", kind, 100*off)
		}
	}
	if part := float64(always) / float64(length); part < 0.45 || part > 0.6 || s.changes < 10000 {
		t.Errorf("no pauses for %.2f of the time, which should be half, and %d changes", part, s.changes)
	}
	t.Logf("weights %.4f of the clock, no pauses for %.2f of the time, %d changes", seen/float64(clock), float64(always)/float64(length), s.changes)
}

// TestWindowsHideNoLoss: what is lost in windows is not made up for.
func TestWindowsHideNoLoss(t *testing.T) {
	t.Parallel()
	s := &simulated{windows: newWindows(0.01), now: time.Now(), loss: 0.3}
	s.load = func(time.Duration) (int, time.Duration) { return 0, tick }
	s.settle(taker.Price{Lately: 0.08, Throughout: 0.08})
	s.run(t, 1000*time.Second)
	clock, seen := s.sum()
	if part := seen / float64(clock); math.Abs(part-0.7) > 0.02 {
		t.Errorf("weights are %.3f of the clock, and 0.3 are lost", part)
	}
}

// TestWindowsOnlyOverBudget: within the budget nothing changes. After two readings over it the
// share of the time that makes the price right is reached in steps, and a lump changes nothing.
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
		{0.01, taker.Price{Lately: 0.5, Throughout: 0.5, Little: true}, 1},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04}, 0.2},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04, Calls: 0.004}, 0.1},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04, SoFar: 0.02}, 0.1},
		{0.01, taker.Price{Lately: 9, Throughout: 9}, leastShare},
		{0.01, taker.Price{Lately: 0.02, Throughout: 0.04, Calls: 1}, 0.1},
	} {
		s := &simulated{windows: newWindows(c.budget), now: now}
		for range 10 {
			s.pay(c.price, unbounded)
			s.pay(taker.Price{Lately: c.budget}, unbounded)
		}
		if s.pay(c.price, unbounded); s.share != 1 || s.turn(now) != windowKept {
			t.Errorf("%+v of %v: share %v after single readings", c.price, c.budget, s.share)
		}
		if s.pay(c.price, unbounded); s.share < 1/shareStep {
			t.Errorf("%+v of %v: share %v after two readings", c.price, c.budget, s.share)
		}
		s.settle(c.price)
		if change := s.turn(now); math.Abs(s.share-c.share) > 1e-9 || (change == windowClosed) != (c.share < 1) || s.factor != 1 {
			t.Errorf("%+v of %v: share %v, factor %v, change %d", c.price, c.budget, s.share, s.factor, change)
		}
	}
}

// TestNoSampleDecides: after 1,000 samples none has more than 2 % of the weights, however dear switches
// are, from the start or later. The beginning is sampled in full, and the first windows are few.
func TestNoSampleDecides(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dear       time.Duration // since when
		throughout float64
	}{{0, 0.02}, {0, 0.5}, {3 * time.Second, 0.5}, {30 * time.Second, 0.5}, {0, 5}} {
		s := &simulated{windows: newWindows(0.01), now: time.Now()}
		s.price = func(at time.Duration) taker.Price {
			if at < test.dear {
				return taker.Price{}
			}
			return taker.Price{Lately: test.throughout, SoFar: test.throughout, Throughout: test.throughout}
		}
		samples, sum, heaviest, worst := 0, 0., 0., 0.
		s.load = func(time.Duration) (int, time.Duration) {
			if !s.off {
				weight := float64(tick) * s.factor // a sample comes each tick
				samples, sum, heaviest = samples+1, sum+weight, max(heaviest, weight)
			}
			if samples >= 1000 {
				worst = max(worst, heaviest/sum)
			}
			return 0, tick
		}
		s.run(t, 500*time.Second)
		if worst > 0.02 || samples < 1000 {
			t.Errorf("dear at %v since %v: a sample of %.1f %% among %d", test.throughout, test.dear, 100*worst, samples)
		}
		if clock, seen := s.sum(); math.Abs(seen/float64(clock)-1) > 0.05 {
			t.Errorf("dear at %v since %v: weights are %.3f of the clock", test.throughout, test.dear, seen/float64(clock))
		}
		if s.share > 0.008/test.throughout && s.share > leastShare {
			t.Errorf("dear at %v since %v: the share is still %v", test.throughout, test.dear, s.share)
		}
	}
}

// TestWindowsEnd: where the price falls within a window or a pause, the window keeps its factor
// and has its pause. Then there are no pauses, and the factor is 1.
func TestWindowsEnd(t *testing.T) {
	t.Parallel()
	for _, within := range []windowChange{windowOpened, windowClosed} {
		s := &simulated{windows: newWindows(0.01), now: time.Now()}
		s.settle(taker.Price{Lately: 0.5, Throughout: 0.08})
		s.end(s.now, 0, tally{})
		if s.turn(s.now) != windowOpened {
			t.Fatal("there is a pause after the time without pauses")
		}
		s.openWindow(s.now, leastWindow, 0)
		if within == windowClosed {
			s.now = s.next
			s.end(s.now, 0, tally{})
		}
		factor, next := s.factor, s.next
		s.settle(taker.Price{Throughout: 0.001})
		if s.share != 1 || factor != 10 || s.factor != factor || s.next != next || s.turn(s.now) != windowKept {
			t.Errorf("within %d: share %v, factor %v, before %v", within, s.share, s.factor, factor)
		}
		for s.turn(s.next) == windowClosed {
			s.end(s.next, 0, tally{})
		}
		if s.turn(s.next) != windowOpened || s.next == s.since {
			t.Errorf("within %d: no pause follows", within)
		}
		s.openWindow(s.next, leastWindow, 0)
		if s.factor != 1 || s.turn(s.next.Add(time.Hour)) != windowKept {
			t.Errorf("within %d: factor %v at last", within, s.factor)
		}
	}
}

// TestWindows: where switches cost too much, samples come from windows, stand for all of the
// time, and cost what is permitted. A switch is taken to cost half as much again with
// events, which is several times the budget.
func TestWindows(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	const budget = 0.1
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "pingpong", "4000")
	g.Proceed(t)
	s, sink := attach(t, g.PID(), Options{Interval: time.Millisecond, MaxOverhead: budget})
	s.drainer.Costs = perfevent.Costs{Sample: 2 * time.Microsecond, Switch: switchTime(t, g.PID()) / 2, Watch: 1}
	s.drainer.windows.share = 0.1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	g.Line(t)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	judged := 0
	samples := enginetest.Drained(sink)
	for _, smp := range samples {
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
	// Without windows the overhead would be a half, or more where a switch has become cheaper for the program than it was
	// at the start. The share follows a price late.
	total := float64(o.Total()) / float64(o.Of)
	if without := max(total/o.Sampled, 0.5); total > 3*budget*without/0.5 {
		t.Errorf("the overhead is %v, without windows %v", total, without)
	}
	if part := float64(sum) / float64(o.Of); part < 1./3 || part > 3 {
		t.Errorf("samples stand for %v, the target used %v", sum, o.Of)
	}
	if sum+st.Loss.Unaccounted != st.Loss.Clock {
		t.Errorf("%v and %v unaccounted for are not %v", sum, st.Loss.Unaccounted, st.Loss.Clock)
	}
	if len(samples) == 0 || st.Loss.Misses(sum/time.Duration(len(samples))) {
		t.Errorf("%d samples, and a warning of %v", len(samples), st.Loss)
	}
	t.Logf("%v; samples stand for %v of %v, %d were judged", o, sum, o.Of, judged)
}

// switchTime returns the CPU time of a process from one context switch to the next.
func switchTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	switches := process.NewSwitches(pid)
	switches.Read()
	before := enginetest.CPUTime(t, pid)
	for switches.Total < 1000 {
		time.Sleep(time.Millisecond)
		if _, err := process.Threads(pid); err != nil {
			t.Fatalf("after %d switches: %v", switches.Total, err)
		}
		switches.Read()
	}
	return (enginetest.CPUTime(t, pid) - before) / time.Duration(switches.Total)
}

// TestEndsInPause: the end of a session does not wait for the end of a pause, which is an hour
// away. No record tells of an exec then.
func TestEndsInPause(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{"kill": "killed", "exec": "target replaced itself by", "stop": "stopped"} {
		t.Run("how="+how, func(t *testing.T) {
			t.Parallel()
			g := enginetest.Start(t, enginetest.Build(t, "receivers"), "exec", "2")
			s, _ := attach(t, g.PID(), Options{MaxOverhead: 0.01})
			d := s.drainer
			d.windows.share = leastShare
			d.windows.openWindow(time.Now(), 0, 0)
			d.closeWindow(t.Context())
			d.windows.next = time.Now().Add(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g.Proceed(t)
			switch how {
			case "kill":
				g.Cmd.Process.Kill()
			case "exec":
				g.Proceed(t)
			case "stop":
				cancel()
			}
			ending, err := s.Run(ctx)
			if err != nil || !strings.Contains(ending.Reason, want) {
				t.Errorf("%+v, %v, want %q", ending, err, want)
			}
		})
	}
}
