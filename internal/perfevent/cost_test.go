package perfevent

import (
	"testing"
	"time"
)

// Events on threads cost something wherever they are permitted, and less than a reader of
// this test would call a mistake.
func TestThreadCosts(t *testing.T) {
	t.Parallel()
	c, err := ThreadCosts()
	if err != nil {
		skip(t, err)
	}
	for name, cost := range map[string]time.Duration{"sample": c.Sample, "switch": c.Switch, "watch": c.Watch} {
		if cost < 0 || cost > 10*time.Millisecond {
			t.Errorf("a %s costs %v", name, cost)
		}
	}
	if again, _ := ThreadCosts(); again != c {
		t.Errorf("measured %+v, and then %+v", c, again)
	}
	t.Logf("%+v", c)
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
