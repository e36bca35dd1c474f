package perf

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

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

// Some drains follow on each other at once; many keep to the pace on average.
func TestPacer(t *testing.T) {
	t.Parallel()
	var p pacer
	begin := time.Now()
	now := begin
	for i := range 10 * paceAhead {
		rest := p.rest(now)
		if i < paceAhead && rest != 0 {
			t.Errorf("drain %d waits for %v", i, rest)
		}
		now = now.Add(rest)
	}
	if got, want := now.Sub(begin), 9*paceAhead*pace; got != want {
		t.Errorf("%d drains took %v, want %v", 10*paceAhead, got, want)
	}
	if rest := p.rest(now.Add(pace)); rest != 0 {
		t.Errorf("a drain that keeps the pace waits for %v", rest)
	}
}
