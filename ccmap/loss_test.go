package ccmap_test

import (
	"math"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestLossAddsUp(t *testing.T) {
	t.Parallel()
	const most, least = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, test := range []struct{ a, b, want ccmap.Loss }{
		{ccmap.Loss{}, ccmap.Loss{}, ccmap.Loss{}},
		{
			ccmap.Loss{Source: 1, Queue: 2, Throttled: 3, Corrupt: 4, Orphaned: 5, Clock: 60, ClockTick: 4, Unaccounted: -7},
			ccmap.Loss{Source: 1, Queue: 1, Throttled: 1, Corrupt: 1, Orphaned: 1, Clock: 10, ClockTick: 3, Unaccounted: 10},
			ccmap.Loss{Source: 2, Queue: 3, Throttled: 4, Corrupt: 5, Orphaned: 6, Clock: 70, ClockTick: 4, Unaccounted: 3},
		},
		{ccmap.Loss{Clock: most, Unaccounted: least}, ccmap.Loss{Clock: 1, Unaccounted: -1}, ccmap.Loss{Clock: most, Unaccounted: least}},
		{ccmap.Loss{Unaccounted: most}, ccmap.Loss{Unaccounted: least}, ccmap.Loss{Unaccounted: -1}},
	} {
		for _, got := range []ccmap.Loss{test.a.Add(test.b), test.b.Add(test.a)} {
			if got != test.want {
				t.Errorf("%+v and %+v add up to %+v, want %+v", test.a, test.b, got, test.want)
			}
		}
	}
}

func TestLossMissesWhatChanceDoesNot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		loss   ccmap.Loss
		weight time.Duration
		want   bool
	}{
		{ccmap.Loss{}, time.Millisecond, false},
		{ccmap.Loss{Unaccounted: time.Second}, time.Millisecond, false}, // of what, is not known
		{ccmap.Loss{Clock: 100 * time.Second, Unaccounted: 2 * time.Second}, time.Microsecond, false},
		{ccmap.Loss{Clock: 100 * time.Second, Unaccounted: 2001 * time.Millisecond}, time.Microsecond, true},
		// 10,000 samples: three deviations are 3 %.
		{ccmap.Loss{Clock: 100 * time.Second, Unaccounted: 2999 * time.Millisecond}, 10 * time.Millisecond, false},
		{ccmap.Loss{Clock: 100 * time.Second, Unaccounted: 3001 * time.Millisecond}, 10 * time.Millisecond, true},
		{ccmap.Loss{Clock: 100 * time.Second, Unaccounted: -3001 * time.Millisecond}, 10 * time.Millisecond, true},
		// Ticks of 30 ms beside them: six deviations of the samples alone.
		{ccmap.Loss{Clock: 100 * time.Second, ClockTick: 30 * time.Millisecond, Unaccounted: 5999 * time.Millisecond}, 10 * time.Millisecond, false},
		{ccmap.Loss{Clock: 100 * time.Second, ClockTick: 30 * time.Millisecond, Unaccounted: 6001 * time.Millisecond}, 10 * time.Millisecond, true},
		{ccmap.Loss{Clock: time.Nanosecond, Unaccounted: time.Nanosecond}, math.MaxInt64, false},
	} {
		if got := test.loss.Misses(test.weight); got != test.want {
			t.Errorf("%+v at %v: %t", test.loss, test.weight, got)
		}
	}
	if share, known := (ccmap.Loss{Clock: 4, Unaccounted: -1}).UnaccountedShare(); share != -0.25 || !known {
		t.Errorf("share %v, %t", share, known)
	}
	if _, known := (ccmap.Loss{Source: 1}).UnaccountedShare(); known {
		t.Error("the share is known without a clock")
	}
}

func TestBlind(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	if got := m.Snapshot().Blind(); got != (ccmap.Blind{}) {
		t.Errorf("of an empty map: %+v", got)
	}
	unknown := m.Names().Intern(ccmap.Method{Name: ccmap.UnknownName, Signature: "/lib/x.so"})
	kernel := m.Names().Intern(ccmap.Method{Name: ccmap.KernelName, Signature: "read"})
	fold := func(weight int64, truncated bool, methods ...ccmap.MethodID) {
		s := ccmap.Sample{Weight: weight, Fresh: ccmap.FreshUnknown, Truncated: truncated}
		for _, id := range methods {
			s.Frames = append(s.Frames, ccmap.Frame{Method: id})
		}
		m.Fold(&s)
	}
	fold(80, false, b, a)
	fold(5, true, b, a)
	fold(6, false, unknown, a)
	fold(4, false, kernel, unknown, a)
	fold(5, false, b, unknown, a) // the innermost is known
	got := m.Snapshot().Blind()
	if want := (ccmap.Blind{Truncated: 5, Unknown: 10}); got != want || got.Misleads() {
		t.Errorf("%+v, want %+v, which does not mislead", got, want)
	}
	fold(10, true, unknown)
	if got := m.Snapshot().Blind(); !got.Misleads() || got.Truncated < 13 || got.Unknown < 18 {
		t.Errorf("%+v, want much more", got)
	}
}
