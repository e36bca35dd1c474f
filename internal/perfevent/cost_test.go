package perfevent

import (
	"github.com/ccmapd/ccmapd/internal/testrun"
	"slices"
	"testing"
	"time"
)

// Events on threads cost something wherever they are permitted, and less than a reader of
// this test would call a mistake.
func TestThreadCosts(t *testing.T) {
	t.Parallel()
	testrun.Breakpoints(t, Silent())
	c, err := ThreadCosts()
	if err != nil {
		skip(t, err)
	}
	for name, cost := range map[string]time.Duration{"sample": c.Sample, "switch": c.Switch, "watch": c.Watch, "arm": c.Arm, "trap": c.Trap, "call": c.Call} {
		if cost < 0 || cost > 10*time.Millisecond {
			t.Errorf("a %s costs %v", name, cost)
		}
	}
	if c.Trap == 0 || c.Call == 0 {
		t.Errorf("a trap costs nothing: %+v", c)
	}
	if again, _ := ThreadCosts(); again != c {
		t.Errorf("measured %+v, and then %+v", c, again)
	}
	t.Logf("%+v", c)
}

// Of all gaps in looking at the clock, as many are the timer's as it has interrupted.
func TestMedianOfLongest(t *testing.T) {
	t.Parallel()
	const µs = time.Microsecond
	all := []time.Duration{µs, 9 * µs, µs, 20 * time.Millisecond, 8 * µs, 10 * µs, µs, µs, 11 * µs, µs}
	for n, want := range map[int]time.Duration{5: 10 * µs, 1: 20 * time.Millisecond, 99: 8 * µs} {
		if got := medianOfLongest(slices.Clone(all), n); got != want {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
	if got := medianOfLongest(nil, 5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// Times in which other work ran do not count, and the usual cost stands for a cost of which no
// other time was taken.
func TestUndisturbed(t *testing.T) {
	t.Parallel()
	const busy, usual = 88 * time.Millisecond, 12 * time.Microsecond
	for _, c := range []struct {
		all  []time.Duration
		want time.Duration
	}{{nil, usual}, {[]time.Duration{busy}, usual}, {[]time.Duration{busy, 30, busy, busy, 20, 40}, 30}} {
		if got := undisturbed(c.all, usual); got != c.want {
			t.Errorf("of %v: %v, want %v", c.all, got, c.want)
		}
	}
}

// Rounds that other work disturbs do not matter, and the deadline ends the measurement.
func TestCompare(t *testing.T) {
	t.Parallel()
	open, calls := false, 0
	round := func() time.Duration {
		calls++
		switch {
		case calls%7 == 0:
			return time.Second // something else ran
		case open:
			return 7 * time.Microsecond
		}
		return 4 * time.Microsecond
	}
	events := func() (func(), error) {
		open = true
		return func() { open = false }, nil
	}
	without, with, err := compare(time.Now().Add(time.Hour), round, events)
	if without != 4*time.Microsecond || with != 7*time.Microsecond || err != nil {
		t.Errorf("%v without events, %v with them, %v", without, with, err)
	}
	if want := 2 * costTurns * costRounds; calls != want {
		t.Errorf("%d rounds, want %d", calls, want)
	}
	calls = 0
	if compare(time.Now().Add(-time.Hour), round, events); calls != 2*costRounds {
		t.Errorf("after the deadline there were %d rounds", calls)
	}
}
