package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// hostConfig has the whole host, and one of its programs.
func hostConfig() *config.Config {
	return webConfig(func(c *config.Config) {
		c.Budget.Targets = 7
		c.Targets = append(c.Targets, config.Target{Name: "host", Match: config.Match{Host: true}, Settings: c.Defaults})
	})
}

// TestWholeHost: the whole host is a target without a process, beside targets of its programs. Its map goes on
// after a pause. Nobody but root and the group sees it, or hears of it.
func TestWholeHost(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		time.Sleep(5 * time.Second)
		s := mustTarget(t, d, "host")
		if s.State != Sampling || s.Rule != "the whole host" || len(s.Processes) != 1 || s.Processes[0].PID != 0 || !s.OfHost || s.Status.Samples < 300 {
			t.Errorf("%+v", s)
		}
		if len(s.Owners) != 1 || s.Owners[0] != process.Unowned || h.programs != 7 {
			t.Errorf("it belongs to %v, and may have %d programs", s.Owners, h.programs)
		}
		if web := mustTarget(t, d, "web"); web.OfHost || web.State != Sampling || len(web.Processes) != 1 {
			t.Errorf("its program: %+v", web)
		}
		for _, e := range d.events.kept {
			if e.OfHost != (e.Target == "host") {
				t.Errorf("%+v", e)
			}
		}
		before := samplesOf(t, d, "host", 0)["[process web]"]
		if err := d.Pause("host"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := d.Resume("host"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if now := samplesOf(t, d, "host", 0)["[process web]"]; now < before+300 {
			t.Errorf("%d samples after the pause, %d before", now, before)
		}
		found, err := d.Check()
		if err != nil || len(found) != 2 || !found[0].OfHost || found[0].Target != "host" {
			t.Errorf("Check: %+v, %v", found, err)
		}
	})
}

// TestWholeHostRefused: without rights, or without engine bpf, the target is refused with the cure, and
// tried again.
func TestWholeHostRefused(t *testing.T) {
	t.Parallel()
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return hostConfig(), nil }}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	f := mustNamed(t, d, "host").newFollower(process.Facts{})

	if _, err := f.open(t.Context(), process.FileID{}, ""); !errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(f.cureOf(err), "engine bpf") {
		t.Errorf("without engine bpf: %v: %q", err, f.cureOf(err))
	}
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.whole = errRefused
		c := hostConfig()
		d.load = func() (*config.Config, error) { return c, nil }
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if s := mustTarget(t, d, "host"); s.State != Refused || !strings.Contains(s.Reason, "forbidden") || s.Cure != cureOfHost || s.NextTry == nil {
			t.Errorf("%+v", s)
		}
		h.mu.Lock()
		h.whole = nil
		h.mu.Unlock()
		time.Sleep(5 * time.Second)
		if s := mustTarget(t, d, "host"); s.State != Sampling || s.Failures == 0 {
			t.Errorf("later: %+v", s)
		}
	})
}

// TestWholeHostBudgets: the budgets of CPU and memory hold for the whole host, too.
func TestWholeHostBudgets(t *testing.T) {
	t.Parallel()
	c := hostConfig()
	c.Budget.CPU = 0.1
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.usesFrom.Store(time.Now().UnixNano())
		time.Sleep(time.Minute)
		if s := mustTarget(t, d, "host"); s.Status.IntervalNS < 3*int64(10*time.Millisecond) || s.Counters.IntervalChanges == 0 {
			t.Errorf("five times the budget, and the interval is %v", time.Duration(s.Status.IntervalNS))
		}
		little := *d.Config()
		little.Budget.Memory = 50_000
		d.inForce.Store(&little)
		d.budgets.boundMaps(d.roster.everyone())
		n := 0
		for _, s := range slotsOf(d) {
			n++
			if s.bound != leastMap {
				t.Errorf("over the budget, the map is bound to %d bytes", s.bound)
			}
		}
		if n != 1 {
			t.Errorf("%d maps", n)
		}
	})
}

// TestWholeHostMemory: no more programs are opened once most of the budget of memory is used.
func TestWholeHostMemory(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		hasMemory := func(most, used int64) bool {
			little := *d.Config()
			little.Budget.Memory = most
			d.inForce.Store(&little)
			h.usedMemory.Store(used)
			return h.hasMemory()
		}
		for _, c := range []struct {
			most, used int64
			want       bool
		}{{1000, 0, true}, {1000, 700, true}, {1000, 701, false}, {0, 701, true}} {
			if got := hasMemory(c.most, c.used); got != c.want {
				t.Errorf("%+v: %t", c, got)
			}
		}
	})
	if liveHeap() <= 0 {
		t.Error("the live heap is not known")
	}
}

// TestWholeHostShare: the open programs and the names of the whole host have parts of the budget of memory. A budget
// that is loaded anew holds for the programs at once. What all users of memory may take is less than the collector's
// limit.
func TestWholeHostShare(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		if got := h.mostPrograms(); got != 214748364 || h.mostNames != 64<<20 {
			t.Errorf("programs may take %d bytes, and names %d", got, h.mostNames)
		}
		little := *d.Config()
		little.Budget.Memory = 100 << 20
		d.inForce.Store(&little)
		if got := h.mostPrograms(); got != 20<<20 {
			t.Errorf("of 100 MiB, programs may take %d bytes", got)
		}
	})
	for memory, want := range map[int64]int64{0: 64 << 20, 16 << 20: 1 << 20, 4 << 30: 64 << 20} {
		if got := hostNames(memory); got != want {
			t.Errorf("of %d bytes, names may take %d, want %d", memory, got, want)
		}
	}
	const uploads = 1.0 / 8 // see package api
	if all := mapsShare + programsShare + uploads; all >= heapShare {
		t.Errorf("maps, programs and uploads may take %.2f of the budget, and the collector has %.2f", all, heapShare)
	}
}

// TestWholeHostNames: when the names of all programs are too many, the next map begins, and soon again only after
// a while.
func TestWholeHostNames(t *testing.T) {
	t.Parallel()
	inDaemon(t, hostConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		full := func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.entire.err = fmt.Errorf("sample the host: %w", engine.ErrNames)
			close(h.entire.ended)
		}
		time.Sleep(2 * time.Minute)
		before := samplesOf(t, d, "host", 0)["[process web]"]
		full()
		time.Sleep(5 * time.Second)
		s := mustTarget(t, d, "host")
		if now := samplesOf(t, d, "host", 0)["[process web]"]; s.State != Sampling || now == 0 || now >= before {
			t.Errorf("%d samples after %d, %+v", now, before, s)
		}
		full()
		time.Sleep(100 * time.Millisecond)
		if s := mustTarget(t, d, "host"); s.State != Waiting || !strings.Contains(s.Reason, "names") {
			t.Errorf("at once again: %+v", s)
		}
		time.Sleep(5 * time.Second)
		if s := mustTarget(t, d, "host"); s.State != Sampling {
			t.Errorf("later: %+v", s)
		}
	})
}

func mustNamed(t *testing.T, d *Daemon, name string) *target {
	t.Helper()
	found, err := d.roster.named(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
