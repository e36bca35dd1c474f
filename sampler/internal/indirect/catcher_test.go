package indirect

import (
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func newTestCatcher(budget float64) *Catcher {
	return New(Options{Code: noCalls{}, Counts: new(Counts), Budget: budget, Log: slog.New(slog.DiscardHandler)})
}

// noCalls is code without indirect calls.
type noCalls struct{}

func (noCalls) CallBefore(uint64, *Finder) Call { return Call{Kind: Other} }

// TestPauses: with any budget the pauses after a burst are, on average, what its
// calls take of the budget.
func TestPauses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		budget := rapid.OneOf(
			rapid.Float64Range(math.SmallestNonzeroFloat64, 1e-3),
			rapid.Float64Range(1, 1e6),
			rapid.Just(math.Inf(1)),
		).Draw(r, "budget")
		cost := rapid.Float64Range(1, BurstCalls+burstThreads).Draw(r, "cost")
		want := min(cost/budget, longestAverage.Seconds())
		pauses := make([]float64, 400)
		synctest.Test(t, func(*testing.T) { // whose clock stands still
			c := newTestCatcher(budget)
			for i := range pauses {
				c.pause(cost)
				pauses[i] = time.Until(c.due).Seconds()
			}
		})
		var sum float64
		for _, pause := range pauses {
			if pause < 0 || pause > longestPause*want+1 {
				r.Fatalf("a pause of %v s, want %v on average", pause, want)
			}
			sum += pause
		}
		// The standard deviation of an exponential distribution is its mean.
		n := float64(len(pauses))
		if mean := sum / n; math.Abs(mean-want) > 6*want/math.Sqrt(n)+1e-3 {
			r.Fatalf("pauses of %v s on average, want %v", mean, want)
		}
	})
}

// TestPausesForCPUTime: a target that uses little CPU time pays for caught calls the same part
// of it as one that uses a core.
func TestPausesForCPUTime(t *testing.T) {
	t.Parallel()
	c := newTestCatcher(100)
	c.Ran(time.Minute) // before the first pause
	c.Ran(1)           // less than any pause
	c.pause(BurstCalls)
	c.Watch(7, nil)
	now := c.due.Add(time.Hour)
	if c.Turn(now); c.resting || c.Patience() < forever {
		t.Error("a burst is due although the target has not run")
	}
	c.Ran(time.Hour)
	if p := c.Patience(); p > time.Hour {
		t.Errorf("the target has run, and the next turn is in %v", p)
	}
	if c.Turn(now); !c.resting { // no site is hot
		t.Error("no burst although the target has run")
	}
	for _, weight := range []time.Duration{time.Millisecond, 100 * time.Millisecond} {
		const pauses, want = 10_000, time.Second * BurstCalls / 100
		c, used := newTestCatcher(100), time.Duration(0)
		for range pauses {
			for c.pause(BurstCalls); c.owed > 0; used += weight {
				c.Ran(weight)
			}
		}
		if mean := used / pauses; (mean - want).Abs() > want/20 {
			t.Errorf("samples of %v: a burst for each %v of CPU time, want %v", weight, mean, want)
		}
	}
}

// TestRetries: the longer breakpoints cannot be set the more rarely it is tried.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose clock stands still
		c := newTestCatcher(100)
		var last time.Duration
		for tries := range 100 {
			if said := c.Counts.Reason() != ""; said != (tries >= patientTries) {
				t.Fatalf("after %d tries the reason is %q", tries, c.Counts.Reason())
			}
			c.retry(unix.ENOSPC)
			wait := time.Until(c.due)
			if wait < last || wait < firstRetry || wait > lastRetry {
				t.Fatalf("tries again after %v, the last time after %v", wait, last)
			}
			last = wait
		}
		if last < lastRetry {
			t.Errorf("tries again after %v", last)
		}
	})
}

// TestRests: a target that does nothing is left alone, and the engine asleep,
// until there is a sample.
func TestRests(t *testing.T) {
	t.Parallel()
	c := newTestCatcher(100)
	now := c.due
	for range 2 {
		if p := c.Patience(); p >= forever {
			t.Fatalf("the first turn comes after %v", p)
		}
		c.Turn(now) // no site is hot
		now = now.Add(time.Hour)
		c.Turn(now)
		if p := c.Patience(); p < forever || c.due.After(now) {
			t.Fatalf("without a sample the engine is woken after %v; due %v", p, c.due.Sub(now))
		}
		c.Watch(7, nil)
	}
}
