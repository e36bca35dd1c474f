package daemon

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

// TestBudgetRaisesIntervals: over the budget of CPU the interval of a session grows.
func TestBudgetRaisesIntervals(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Budget.CPU = 0.1 })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.usesFrom.Store(time.Now().UnixNano())
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
		h.usesFrom.Store(time.Now().UnixNano())
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
		c := *d.Config()
		d.inForce.Store(&c)
		for _, s := range slotsOf(d) {
			if s.bound != 64<<20 {
				t.Errorf("within the budget, a map is bound to %d bytes", s.bound)
			}
		}
		c.Budget.Memory = 50_000
		d.budgets.boundMaps(d.roster.everyone())
		for _, s := range slotsOf(d) {
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
	p, err := m.Pin(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	f, err := m.facts(pid)
	if err != nil || f.PID != pid || p.Gone() {
		t.Errorf("%+v, %v", f, err)
	}
	if file, err := m.File(pid); err != nil || file.Size == 0 {
		t.Errorf("%+v, %v", file, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if listed, err := m.list(); err != nil || listed[pid] != 0 && listed[pid] == before[pid] || !p.Gone() {
		t.Errorf("after its end: %v", err)
	}
	if _, err := m.Pin(pid); err == nil {
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
