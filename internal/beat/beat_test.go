package beat

import (
	"testing"
	"time"
	"unsafe"
)

// TestUntil: all that wait from any moment of a period on meet at its end, and those who come a little too soon
// are there already.
func TestUntil(t *testing.T) {
	t.Parallel()
	const period = 400 * time.Millisecond
	beat := begin.Add(1000 * period)
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
		now := beat.Add(after)
		if got := Until(now, period); got != want {
			t.Errorf("%v after a beat: %v, want %v", after, got, want)
		}
		if next := Of(now, period).Add(period); next.Sub(now) != want {
			t.Errorf("%v after a beat: the beat after Of comes in %v, want %v", after, next.Sub(now), want)
		}
	}
}

// TestClockIsSet: beats come when they would have come, however the wall clock is set.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	const period = 100 * time.Millisecond
	now := time.Now()
	last := Of(now, period)
	for _, hours := range []int64{-24, 24} {
		later := setClock(now.Add(period), hours)
		if got := Of(later, period); !got.Equal(last.Add(period)) || got.Before(last.Add(period)) {
			t.Errorf("the clock was set by %d h: the beat after %v is %v", hours, last, got)
		}
		if until := Until(later, period); until != Until(now, period) {
			t.Errorf("the clock was set by %d h: %v until the next beat, want %v", hours, until, Until(now, period))
		}
	}
}

// setClock returns a moment as time.Now would after the wall clock was set by some hours: its monotonic reading
// is the same. Seconds of a time with such a reading are above 30 bits of nanoseconds (Go 1.26).
func setClock(now time.Time, hours int64) time.Time {
	wall := (*uint64)(unsafe.Pointer(&now))
	*wall += uint64(hours*3600) << 30
	return now
}
