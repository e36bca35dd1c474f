package taker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// Two samples of a thread that are closer than the interval, as those of two
// CPUs' events can be, do not count as a repetition at the interval.
func TestScheduleTellsEarlySamples(t *testing.T) {
	t.Parallel()
	tk := &Taker{last: make(map[uint64]past)}
	for i, c := range []struct {
		thread     uint64
		at, weight int64
		wantAt     int64
		early      bool
		tid        uint32
		cpu        uint64
	}{
		{1, 1000, 100, 1000, false, 7, 0}, // the first one
		{1, 1100, 100, 1100, false, 7, 0},
		{1, 1195, 100, 1195, false, 7, 0}, // jitter
		{1, 1280, 100, 1280, true, 7, 0},
		{2, 1281, 100, 1281, false, 7, 0}, // another thread
		{1, 1270, 100, 1280, true, 7, 0},  // out of order
		{1, 5000, 100, 5000, false, 7, 10},
		{1, 5100, 100, 5100, true, 7, 60}, // it had the CPU for half of the time
		{1, 5200, 100, 5200, false, 7, 160},
		{1, 5300, 100, 5300, false, 8, 10}, // on another OS thread
	} {
		tk.out = ccmap.Sample{Thread: c.thread}
		tk.schedule(&process.Moment{Time: uint64(c.at), TID: c.tid, CPUTime: c.cpu}, c.weight)
		if tk.out.Time != c.wantAt || tk.out.Weight != c.weight || tk.out.Early != c.early {
			t.Errorf("sample %d: time %d, weight %d, early %v", i, tk.out.Time, tk.out.Weight, tk.out.Early)
		}
	}
}

// The last reading stands when the clock is no more, has gone back, or is that of
// another program.
func TestLedgerKeepsItsLastReading(t *testing.T) {
	t.Parallel()
	now := process.CPUTimes{All: time.Second}
	var failure error
	clock := func() (process.CPUTimes, error) { return now, failure }
	l := process.NewLedger(clock, false, 7)
	tk := &Taker{ledger: l}
	if got := tk.loss(); got != (ccmap.Loss{}) {
		t.Errorf("before a reading: %+v", got)
	}
	now.All = 3 * time.Second
	tk.Balance()
	want := ccmap.Loss{Clock: 2 * time.Second, ClockTick: 7, Unaccounted: 2 * time.Second}
	for _, change := range []func(){
		func() {},
		func() { l.Seen, failure = time.Second, errors.New("no such process") },
		func() { failure, now.All = nil, time.Millisecond },
		func() { tk.Replaced, now.All = true, time.Minute },
		func() {
			tk.Replaced, failure = false, errors.New("not permitted")
			tk.ledger = process.NewLedger(clock, false, 7)
		},
	} {
		change()
		tk.Balance()
		if got := tk.loss(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestRecalledWarning: many samples with the callers of an earlier call are a warning,
// beside that of threads that are not sampled.
func TestRecalledWarning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		recalled, samples uint64
		want              string
	}{
		{0, 0, ""},
		{50, 1000, ""},
		{75, 1000, "7.5% of the samples are in C and have the callers of their goroutine's last such call"},
	} {
		var n counts
		n.recalled.Store(c.recalled)
		n.samples.Store(c.samples)
		if got := n.recalledWarning(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%d of %d: %q", c.recalled, c.samples, got)
		}
	}
	if got := joinWarnings("", "a", "", "b"); got != "a; b" {
		t.Errorf("joined %q", got)
	}
}
