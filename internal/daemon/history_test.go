package daemon

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestHistory: each minute of a target has its own counts, whose sum is the target's, also through a restart and a
// minute without a process. A day is kept.
func TestHistory(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := h.start(web(10))
		time.Sleep(3*time.Minute + 30*time.Second)
		h.kill(first)
		time.Sleep(3 * time.Minute)
		h.start(web(11))
		time.Sleep(3 * time.Minute)
		rows, err := d.History("web", time.Time{})
		if err != nil || len(rows) < 8 || len(rows) > 9 {
			t.Fatalf("%d minutes, %v", len(rows), err)
		}
		sum, idle := uint64(0), 0
		for i, m := range rows {
			sum += m.Samples
			if m.Samples == 0 && m.Interval == 0 {
				idle++
			}
			if m.Lasted < minute || m.Lasted > minute+2*time.Second || i > 0 && m.At.Sub(rows[i-1].At) != m.Lasted {
				t.Errorf("minute %d ends at %v and has lasted %v", i, m.At, m.Lasted)
			}
		}
		if s := mustTarget(t, d, "web"); sum == 0 || sum > s.Counters.Samples || idle < 2 || rows[0].Interval == 0 || rows[0].Nodes == 0 {
			t.Errorf("%d samples of %d, %d idle minutes, the first is %+v", sum, s.Counters.Samples, idle, rows[0])
		}
		if got, last := mustTarget(t, d, "web").Rate, rows[len(rows)-1]; len(got) != len(rows) || math.Abs(got[0]-float64(last.Samples)/last.Lasted.Seconds()) > 0.05 {
			t.Errorf("the target has had %v samples a second, its last minute is %+v", got, last)
		}
		if last, err := d.History("web", rows[len(rows)-2].At); err != nil || len(last) != 1 {
			t.Errorf("%d minutes since the last but one, %v", len(last), err)
		}
		if _, err := d.History("none", time.Time{}); !errors.Is(err, ErrNoTarget) {
			t.Error(err)
		}
	})
	h, now := new(history), time.Now()
	target := new(means).newTarget(webConfig().Targets[0])
	for range minutesKept + 10 {
		h.note(now, target)
		now = now.Add(minute)
	}
	if rows := h.since(time.Time{}); len(rows) != minutesKept || !rows[len(rows)-1].At.Equal(now.Add(-minute)) {
		t.Errorf("%d minutes are kept", len(rows))
	}
	if got := h.rate(); len(got) != minutesShown {
		t.Errorf("%d minutes are shown", len(got))
	}
}
