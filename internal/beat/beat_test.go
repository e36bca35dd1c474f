package beat

import (
	"testing"
	"time"
)

// TestUntil: all that wait from any moment of a period on meet at its end, and those who come a little too soon
// are there already.
func TestUntil(t *testing.T) {
	t.Parallel()
	const period = 400 * time.Millisecond
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if begin.Truncate(period) != begin {
		t.Fatal("the test begins between two beats")
	}
	for after, want := range map[time.Duration]time.Duration{
		0:                        period,
		1:                        period - 1,
		period / 2:               period / 2,
		period - period/16 - 1:   period/16 + 1,
		period - period/16:       period + period/16,
		period - 1:               period + 1,
		period:                   period,
		9*period + 3*time.Second: period - 200*time.Millisecond,
	} {
		now := begin.Add(after)
		if got := Until(now, period); got != want {
			t.Errorf("%v after a beat: %v, want %v", after, got, want)
		}
		if next := Of(now, period).Add(period); next.Sub(now) != want {
			t.Errorf("%v after a beat: the beat after Of comes in %v, want %v", after, next.Sub(now), want)
		}
	}
}
