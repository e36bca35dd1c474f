package perf

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"pgregory.net/rapid"
)

// The first sample at an interval stands for the interval, those behind it for
// the period that the kernel had been told until the next change.
func TestEventWeighs(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	e := event{now: periods{each: 4 * ms, first: 10 * ms}}
	e.before[3] = periods{each: 20 * ms, until: 1000}
	change := func(at int64, p periods) { // as follow does
		e.follow(p)
		e.before[3].until = at
	}
	check := func(at int64, want time.Duration, wantRedraw bool) {
		t.Helper()
		if w, redraw := e.weigh(at); w != want || redraw != wantRedraw {
			t.Errorf("sample at %d: %v, redraw %v; want %v, %v", at, w, redraw, want, wantRedraw)
		}
	}
	check(500, 20*ms, false) // of the event that this one has replaced
	check(2000, 10*ms, true)
	check(2001, 4*ms, false)
	change(3000, periods{each: 11 * ms})
	check(2500, 4*ms, false)
	check(3500, 11*ms, false)
	check(3000+int64(redrawAfter)+1, 11*ms, true)

	change(4000, periods{each: 5 * ms, first: 9 * ms})
	change(5000, periods{each: ms, first: 2 * ms})
	check(3500, 11*ms, false)
	check(4500, 9*ms, false) // the change came before the first sample was seen
	check(4501, 5*ms, false)
	check(6000, 2*ms, true)
}

// No period is shorter than the shortest interval, however short the interval is
// and its random part.
func TestFirstPeriods(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(int64(leastInterval), int64(time.Minute)).Draw(t, "interval"))
		p := beginning(interval)
		if p.each < leastInterval || p.each > interval || p.first != interval {
			t.Errorf("with %v: %+v", interval, p)
		}
	})
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
