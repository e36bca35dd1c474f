package perf

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func newTestCatcher(budget float64) *catcher {
	return newCatcher(&drainer{taker: new(taker), counts: new(counts), log: slog.New(slog.DiscardHandler)}, budget)
}

// TestPauses: with any budget the pauses after a burst are, on average, what its
// calls take of the budget.
func TestPauses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.OneOf(
			rapid.Float64Range(math.SmallestNonzeroFloat64, 1e-3),
			rapid.Float64Range(1, 1e6),
			rapid.Just(math.Inf(1)),
		).Draw(t, "budget")
		cost := rapid.Float64Range(1, burstHits+burstThreads).Draw(t, "cost")
		c := newTestCatcher(budget)
		const pauses = 400
		want := min(cost/budget, longestAverage.Seconds())
		var sum float64
		for range pauses {
			begin := time.Now()
			c.pause(cost)
			pause := c.due.Sub(begin).Seconds()
			if pause < 0 || pause > longestPause*want+1 {
				t.Fatalf("a pause of %v s, want %v on average", pause, want)
			}
			sum += pause
		}
		// The standard deviation of an exponential distribution is its mean.
		if mean := sum / pauses; math.Abs(mean-want) > 6*want/math.Sqrt(pauses)+1e-3 {
			t.Fatalf("pauses of %v s on average, want %v", mean, want)
		}
	})
}

// TestRetries: the longer breakpoints cannot be set the more rarely it is tried.
func TestRetries(t *testing.T) {
	t.Parallel()
	c := newTestCatcher(100)
	var last time.Duration
	for range 100 {
		begin := time.Now()
		c.retry(unix.ENOSPC)
		wait := c.due.Sub(begin).Round(time.Second)
		if wait < last || wait < firstRetry || wait > lastRetry {
			t.Fatalf("tries again after %v, the last time after %v", wait, last)
		}
		last = wait
	}
	if last != lastRetry || c.counts.whyNoHits() == "" {
		t.Errorf("tries again after %v; reason %q", last, c.counts.whyNoHits())
	}
}
