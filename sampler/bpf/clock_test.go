package bpf

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/enginetest"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"pgregory.net/rapid"
)

// TestClockLosesNothing: the interrupts of a timer stand for all time that has passed, however often
// it begins another period, and whatever interrupts find no program to run.
func TestClockLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string, least, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(r, name))
		}
		var c clock
		start := draw("start", 0, time.Hour)
		now := start
		var seen time.Duration
		for range rapid.IntRange(1, 20).Draw(r, "periods") {
			e := c.begin(now, draw("period", time.Microsecond, time.Second))
			if now+c.period >= time.Duration(e.Until) || now+2*c.period <= time.Duration(e.Until) {
				r.Fatalf("the first interrupt of %v comes before %v", c.period, time.Duration(e.Until)-now)
			}
			lasts := draw("lasts", 0, 5*time.Second)
			if lasts >= c.period {
				seen += time.Duration(e.Broken) + lasts/c.period*c.period
			}
			now += lasts
		}
		if rest := time.Duration(c.begin(now, time.Second).Broken); seen+rest != now-start {
			r.Errorf("%v have passed, interrupts stand for %v, and the next one for %v more", now-start, seen, rest)
		}
	})
}

// TestRecordsStandForPeriods: a record stands for the period of its CPU, whatever ran there
// before; the first one after a change also for what was left of the period before.
func TestRecordsStandForPeriods(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s := joined(t, h, g.PID(), func(*programTarget) {})
	g.Proceed(t)
	periods := func() map[int]time.Duration {
		h.mu.Lock()
		defer h.mu.Unlock()
		all := make(map[int]time.Duration)
		for cpu, c := range h.clocks {
			all[cpu] = c.period
		}
		return all
	}
	var r record
	for range 3 {
		before := periods()
		h.mu.Lock()
		err := h.setPeriods()
		h.redraw = time.Now().Add(time.Hour)
		h.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		changed, now := perfevent.Monotonic(), periods()
		first := make(map[int]bool)
		for whole := 0; whole < 50; time.Sleep(time.Millisecond) {
			h.drain()
			each(s, func(raw []byte) {
				if err := r.decode(raw); err != nil {
					t.Fatal(err)
				}
				cpu, stands := int(r.Cpu), time.Duration(r.Stands)
				switch {
				case int64(r.Time) < changed:
					return
				case stands == now[cpu]:
					whole++
				case first[cpu] || stands < now[cpu] || stands >= now[cpu]+before[cpu]:
					t.Fatalf("a record of CPU %d stands for %v, the period is %v, and was %v", cpu, stands, now[cpu], before[cpu])
				}
				first[cpu] = true
			})
		}
	}
}
