package bpf

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
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
			e := c.beginPeriod(now, draw("period", time.Microsecond, time.Second))
			if now+c.period >= time.Duration(e.Until) || now+2*c.period <= time.Duration(e.Until) {
				r.Fatalf("the first interrupt of %v comes before %v", c.period, time.Duration(e.Until)-now)
			}
			lasts := draw("lasts", 0, 5*time.Second)
			if lasts >= c.period {
				seen += time.Duration(e.Broken) + lasts/c.period*c.period
			}
			now += lasts
		}
		if rest := time.Duration(c.beginPeriod(now, time.Second).Broken); seen+rest != now-start {
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

// TestWeightLeavesOutStolenTime: a record does not stand for time that no thread had.
func TestWeightLeavesOutStolenTime(t *testing.T) {
	t.Parallel()
	const ms = uint64(time.Millisecond)
	for _, c := range []struct {
		stands, stolen uint64
		share          uint32
		want           uint64
	}{
		{10 * ms, 0, 0, 10 * ms},
		{10 * ms, 3 * ms, 0, 7 * ms},
		{10 * ms, 3 * ms, 1 << 31, 14 * ms},
		{10 * ms, 30 * ms, 0, 0},
		{10 * ms, 1<<64 - 1, 1 << 31, 0},
	} {
		var r record
		r.Stands, r.Stolen, r.Share = c.stands, c.stolen, c.share
		if got := uint64(r.weight()); got != c.want {
			t.Errorf("%+v: weight %d", c, got)
		}
	}
}

// TestStolenTime: the program finds the time that hypervisor and interrupts have taken since
// the machine started, as /proc/stat has it (CONFIG_PARAVIRT_TIME_ACCOUNTING).
func TestStolenTime(t *testing.T) {
	t.Parallel()
	h := unread(t)
	cpus, err := h.online()
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range cpus {
		g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
		g.PinTo(t, []int{cpu})
		s := joined(t, h, g.PID(), func(*programTarget) {})
		g.Proceed(t)
		least, _ := stolenOf(t, cpu)
		for sampled := false; !sampled; time.Sleep(time.Millisecond) {
			h.drain()
			each(s, func([]byte) { sampled = true })
		}
		var found []uint64
		if err := h.program.Remembered.Lookup(uint32(0), &found); err != nil {
			t.Fatal(err)
		}
		_, most := stolenOf(t, cpu)
		if got := time.Duration(found[cpu]); got < least || got > most {
			t.Errorf("CPU %d: the program says that no thread had %v, /proc/stat %v to %v", cpu, got, least, most)
		}
	}
}

// stolenOf returns the time of a CPU that no thread had, at least and at most: what the
// hypervisor has taken, and interrupts, too, where they are counted. Both kinds of counting
// divide a tick differently. The scheduler leaves out what was taken beyond the time since its last
// look at its clock (update_rq_clock_task): a quarter on an idle machine of Linux 6.18.
func stolenOf(t *testing.T, cpu int) (least, most time.Duration) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	const tick = 10 * time.Millisecond // USER_HZ
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); fields[0] == fmt.Sprint("cpu", cpu) {
			var user, nice, system, idle, iowait, irq, softirq, steal time.Duration
			if _, err := fmt.Sscan(strings.Join(fields[1:], " "), &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
				t.Fatal(err)
			}
			return steal*tick/2 - 20*tick, (irq+softirq+steal)*tick*6/5 + 20*tick
		}
	}
	t.Fatalf("/proc/stat lacks CPU %d", cpu)
	return 0, 0
}
