package perf

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The first sample of an event stands for the interval, those behind it for the
// period that the kernel had been told until the change took effect.
func TestEventWeighs(t *testing.T) {
	t.Parallel()
	e := event{period: time.Millisecond, before: time.Millisecond, changed: 1000, first: 10 * time.Millisecond}
	if w, redraw := e.weigh(2000); w != 10*time.Millisecond || !redraw {
		t.Errorf("first sample: %v, redraw %v", w, redraw)
	}
	e.before, e.period, e.changed = e.period, 11*time.Millisecond, 3000 // as setPeriod does
	for _, c := range []struct {
		at     int64
		weight time.Duration
		redraw bool
	}{
		{2500, time.Millisecond, false},
		{3500, 11 * time.Millisecond, false},
		{3000 + int64(redrawAfter) + 1, 11 * time.Millisecond, true},
	} {
		if w, redraw := e.weigh(c.at); w != c.weight || redraw != c.redraw {
			t.Errorf("sample at %d: %v, redraw %v; want %v, %v", c.at, w, redraw, c.weight, c.redraw)
		}
	}
}

// Two samples of a thread that are closer than the interval, as those of two
// CPUs' events can be, do not count as a repetition at the interval.
func TestScheduleTellsEarlySamples(t *testing.T) {
	t.Parallel()
	tk := &taker{last: make(map[uint64]int64)}
	for i, c := range []struct {
		thread     uint64
		at, weight int64
		wantAt     int64
		early      bool
	}{
		{1, 1000, 100, 1000, false}, // the first one
		{1, 1100, 100, 1100, false},
		{1, 1195, 100, 1195, false}, // jitter
		{1, 1280, 100, 1280, true},
		{2, 1281, 100, 1281, false}, // another thread
		{1, 1270, 100, 1280, true},  // out of order
		{1, 5000, 100, 5000, false},
	} {
		tk.out = ccmap.Sample{Thread: c.thread}
		tk.schedule(c.at, c.weight)
		if tk.out.Time != c.wantAt || tk.out.Weight != c.weight || tk.out.Early != c.early {
			t.Errorf("sample %d: time %d, weight %d, early %v", i, tk.out.Time, tk.out.Weight, tk.out.Early)
		}
	}
}
