package daemon

import (
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/daemon/config"
)

// TestLevel: cut to the level, costs fill the budget, and no lower level would be fairer.
func TestLevel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOf(rapid.Float64Range(0, 100)).Draw(t, "costs")
		budget := rapid.Float64Range(0.1, 200).Draw(t, "budget")
		sum, cut := 0.0, 0.0
		l := level(costs, budget)
		for _, c := range costs {
			sum += c
			cut += min(c, l)
		}
		switch {
		case sum <= budget*(1-1e-9) && !math.IsInf(l, 1):
			t.Fatalf("%v fit, and are cut to %v", costs, l)
		case sum > budget*(1+1e-9) && math.Abs(cut-budget) > 1e-6*budget:
			t.Fatalf("cut to %v, costs are %v of %v", l, cut, budget)
		}
	})
}

// TestCharge: sessions share the CPU time by their samples. Over the budget the costliest ones
// hear of more than their bound.
func TestCharge(t *testing.T) {
	t.Parallel()
	var c cpuMeter
	small, large := new(share), new(share)
	shares := []*share{small, large}
	start := time.Unix(1000, 0)
	c.charge(start, time.Hour, 0.5, shares, []uint64{7, 7}) // what was used before counts for none
	if small.cpu() != 0 || large.cpu() != 0 {
		t.Errorf("charged %v and %v at the start", small.cpu(), large.cpu())
	}
	c.charge(start.Add(time.Second), time.Hour+400*time.Millisecond, 0.5, shares, []uint64{107, 307})
	if got := []time.Duration{small.cpu(), large.cpu()}; got[0] != 200*time.Millisecond || got[1] != 600*time.Millisecond {
		t.Errorf("within the budget: %v of a second, want a quarter and three of 0.4 s, over 0.5 cores", got)
	}
	before := [2]time.Duration{small.cpu(), large.cpu()}
	c.charge(start.Add(2*time.Second), time.Hour+1400*time.Millisecond, 0.5, shares, []uint64{207, 1207})
	if over := large.cpu() - before[1]; over <= time.Second {
		t.Errorf("over the budget, the costliest session is charged %v of a second", over)
	}
	if within := small.cpu() - before[0]; within > time.Second {
		t.Errorf("over the budget, the small session is charged %v of a second", within)
	}
	c.charge(start.Add(3*time.Second), 2*time.Hour, 0.5, shares, []uint64{207, 1207}) // nothing sampled: requests
	if large.cpu()-before[1] > 3*time.Second {
		t.Error("a session is charged for work without samples")
	}
}

// TestBudgetRaisesIntervals: over the budget of CPU the interval of a session grows.
func TestBudgetRaisesIntervals(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Budget.CPU = 0.1 })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		begin := time.Now()
		d.mu.Lock()
		d.usedCPU = func() time.Duration { return time.Since(begin) / 2 }
		d.mu.Unlock()
		h.start(web(10))
		time.Sleep(time.Minute)
		if s := mustTarget(t, d, "web").Status; s.IntervalNS < 3*int64(10*time.Millisecond) {
			t.Errorf("five times the budget, and the interval is %v", time.Duration(s.IntervalNS))
		}
		if n := mustTarget(t, d, "web").Counters.IntervalChanges; n == 0 {
			t.Error("a change of the interval is not counted")
		}
	})
}

// TestAnswersAreApart: the CPU time of answers lengthens no interval.
func TestAnswersAreApart(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Budget.CPU = 0.1 })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		begin := time.Now()
		d.mu.Lock()
		d.usedCPU = func() time.Duration { return time.Since(begin) / 2 }
		d.mu.Unlock()
		h.start(web(10))
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			d.Spent(50 * time.Millisecond)
		}
		if s := mustTarget(t, d, "web").Status; s.IntervalNS != int64(10*time.Millisecond) {
			t.Errorf("all time is for answers, and the interval is %v", time.Duration(s.IntervalNS))
		}
	})
}

// TestBoundMaps: maps that exceed the budget of memory together are cut to one level.
func TestBoundMaps(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		h.start(web(11))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		c := *d.config
		d.config = &c
		for s := range d.slots() {
			if s.bound != 64<<20 {
				t.Errorf("within the budget, a map is bound to %d bytes", s.bound)
			}
		}
		c.Budget.Memory = 50_000
		d.boundMaps()
		for s := range d.slots() {
			if s.bound != leastMap {
				t.Errorf("over the budget, a map is bound to %d bytes", s.bound)
			}
		}
	})
}

// TestMachine looks at this machine: a process appears, is another one after exec, and goes.
func TestMachine(t *testing.T) {
	t.Parallel()
	var m machine
	before, err := m.list()
	if err != nil || before[os.Getpid()] == 0 {
		t.Fatalf("%d processes, %v", len(before), err)
	}
	if again, err := m.list(); err != nil || again[os.Getpid()] != before[os.Getpid()] {
		t.Errorf("the identity of this process has changed: %v", err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	listed, err := m.list()
	if err != nil || listed[pid] == 0 || listed[pid] == before[pid] {
		t.Errorf("a new process is not listed: %v", err)
	}
	p, err := m.pin(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	f, err := m.facts(pid)
	if err != nil || f.PID != pid || p.Gone() {
		t.Errorf("%+v, %v", f, err)
	}
	if file, err := m.file(pid); err != nil || file.size == 0 {
		t.Errorf("%+v, %v", file, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if listed, err := m.list(); err != nil || listed[pid] != 0 && listed[pid] == before[pid] || !p.Gone() {
		t.Errorf("after its end: %v", err)
	}
	if _, err := m.pin(pid); err == nil {
		t.Error("a process that has ended was pinned")
	}
}

// TestEntries: entries that make no sense are left.
func TestEntries(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", strings.Repeat("\x00", 40), strings.Repeat("\xff", 40), strings.Repeat("1", 24)} {
		found := make(map[int]uint64)
		if addEntries(found, []byte(raw)); len(found) != 0 {
			t.Errorf("%q: %v", raw, found)
		}
	}
}
