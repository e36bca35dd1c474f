package perf

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

func TestLedgerBalances(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	began := cpuTimes{all: 1000 * ms, user: 300 * ms, kernel: 100 * ms}
	for _, test := range []struct {
		name     string
		userOnly bool
		now      cpuTimes
		seen     time.Duration
		want     ccmap.Loss
	}{
		{"nothing yet", false, began, 0, ccmap.Loss{}},
		{"all", false, cpuTimes{1100 * ms, 380 * ms, 120 * ms}, 90 * ms, ccmap.Loss{Clock: 100 * ms, Unaccounted: 10 * ms}},
		{"more than all", false, cpuTimes{1100 * ms, 380 * ms, 120 * ms}, 110 * ms, ccmap.Loss{Clock: 100 * ms, Unaccounted: -10 * ms}},
		{"user time", true, cpuTimes{1100 * ms, 380 * ms, 120 * ms}, 90 * ms, ccmap.Loss{Clock: 80 * ms, Unaccounted: -10 * ms}},
		{"user time, no tick yet", true, cpuTimes{1003 * ms, 300 * ms, 100 * ms}, 0, ccmap.Loss{Clock: 3 * ms, Unaccounted: 3 * ms}},
	} {
		l := &ledger{userOnly: test.userOnly, began: began, seen: test.seen}
		if got := l.balance(test.now); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// The last reading stands when the clock is no more, has gone back, or is that of
// another program.
func TestLedgerKeepsItsLastReading(t *testing.T) {
	t.Parallel()
	var now cpuTimes
	var failure error
	l := &ledger{clock: func() (cpuTimes, error) { return now, failure }, began: cpuTimes{all: time.Second}, tick: 7}
	d := &drainer{counts: new(counts), ledger: l}
	if got := d.counts.loss(); got != (ccmap.Loss{}) {
		t.Errorf("before a reading: %+v", got)
	}
	now.all = 3 * time.Second
	d.balance(l.read())
	want := ccmap.Loss{Clock: 2 * time.Second, ClockTick: 7, Unaccounted: 2 * time.Second}
	for _, change := range []func(){
		func() {},
		func() { l.seen, failure = time.Second, errors.New("no such process") },
		func() { failure, now.all = nil, time.Millisecond },
		func() { d.replaced, now.all = true, time.Minute },
		func() { d.replaced, l.broken = false, true },
	} {
		change()
		d.balance(l.read())
		if got := d.counts.loss(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// The clocks of a process that has ended agree with what its parent is told, to
// the µs that it is told in.
func TestCPUTimesAreThoseOfTheParent(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "threads", "8")
	g.proceed(t)
	if got := g.line(t); got != "threads 8" {
		t.Fatalf("the workload says %q", got)
	}
	if err := unix.Waitid(unix.P_PID, g.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	clock, err1 := readCPUTimes(g.pid())
	stat, err2 := readStatTimes(g.pid())
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	told := g.wait(t)
	if off := (clock.all - told).Abs(); off > 10*time.Microsecond {
		t.Errorf("the clock says %v, the parent is told %v", clock.all, told)
	}
	if off := (stat.all - told).Abs(); off > 2*statTick {
		t.Errorf("/proc says %v, the parent is told %v", stat.all, told)
	}
	usage := g.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	user := time.Duration(usage.Utime.Nano())
	for name, got := range map[string]time.Duration{"clock": clock.since(cpuTimes{}, true), "/proc": stat.since(cpuTimes{}, true)} {
		if off := (got - user).Abs(); off > 2*statTick {
			t.Errorf("%s: user time %v, the parent is told %v", name, got, user)
		}
	}
	if _, err := readCPUTimes(g.pid()); err == nil {
		t.Error("the clocks of a process that is no more can be read")
	}
}

// TestTimeAddsUp: samples and what is unaccounted for make up the CPU time that the
// parent of the target is told, however much was lost: here the time of threads
// without descriptors.
func TestTimeAddsUp(t *testing.T) {
	t.Parallel()
	for _, missing := range []bool{false, true} {
		g := start(t, build(t, "workload"), "threads", "16")
		s, sink := attach(t, g.pid(), Options{})
		before, err := readCPUTimes(g.pid())
		if err != nil {
			t.Fatal(err)
		}
		if missing {
			s.threads.maxFDs = s.threads.fds
		}
		g.proceed(t)
		samples, _ := collect(t, s, sink)
		used := g.wait(t) - before.all
		var seen time.Duration
		for _, smp := range samples {
			seen += time.Duration(smp.Weight)
		}
		stats := s.Stats()
		if got := seen + stats.Loss.Unaccounted; got != stats.Loss.Clock {
			t.Errorf("samples stand for %v, %v are unaccounted for: that makes %v, and not %v", seen, stats.Loss.Unaccounted, got, stats.Loss.Clock)
		}
		if !stats.KernelTime && (stats.Loss.Clock <= 0 || stats.Loss.Clock > used+before.all || stats.Loss.ClockTick <= 0) {
			t.Errorf("user time %v in ticks of %v, the parent is told %v", stats.Loss.Clock, stats.Loss.ClockTick, used)
		}
		if stats.KernelTime && (stats.Loss.Clock < used || stats.Loss.Clock > used+before.all || stats.Loss.ClockTick != 0) {
			t.Errorf("the clock says %v in ticks of %v, the parent is told %v", stats.Loss.Clock, stats.Loss.ClockTick, used)
		}
		if missing && stats.Loss.Unaccounted < used/4 {
			t.Errorf("%v of %v are unaccounted for, though no thread that works could be sampled", stats.Loss.Unaccounted, used)
		}
		if warned := stats.Warning != ""; warned && !missing {
			t.Errorf("warning %q", stats.Warning)
		}
		t.Logf("missing %t: used %v, loss %+v, seen %v, warning %q", missing, used, stats.Loss, seen, stats.Warning)
	}
}
