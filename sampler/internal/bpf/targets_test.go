package bpf

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"golang.org/x/sys/unix"
)

// TestSeveralTargets: twenty sources share a host, each with its interval, and each gets
// the samples of its own target, which stand for its CPU time. Under the race detector
// eight do.
func TestSeveralTargets(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	path := enginetest.Build(t, "workload")
	kinds := []struct {
		function string
		interval time.Duration
		args     []string
	}{
		{"main.calls", time.Millisecond, []string{"calls", "10", "4"}},
		{"main.threads.func1", 2 * time.Millisecond, []string{"threads", "2"}},
		{"main.mixed", 5 * time.Millisecond, []string{"busy", "500"}},
		{"main.children", time.Millisecond, []string{"children", "10"}},
	}
	sources := 20
	if testing.Short() || !testrun.IsFull() {
		sources = 8
	}
	for i := range sources {
		c := kinds[i%len(kinds)]
		t.Run(c.function, func(t *testing.T) {
			t.Parallel()
			g := enginetest.Start(t, path, c.args...)
			s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: c.interval, Watchpoints: -1, HitBudget: -1})
			g.Proceed(t)
			samples, _ := enginetest.Collect(t, s, sink)
			g.Wait(t)
			own := 0
			var seen time.Duration
			for _, smp := range samples {
				seen += time.Duration(smp.Weight)
				if smp.Has(c.function) {
					own++
				}
			}
			if own == 0 || own < len(samples)/4 {
				t.Errorf("%d of %d samples are in %s", own, len(samples), c.function)
			}
			loss := s.Stats().Loss
			if loss.Clock <= 0 || seen+loss.Unaccounted != loss.Clock {
				t.Errorf("samples stand for %v, %v are unaccounted for, the clock says %v", seen, loss.Unaccounted, loss.Clock)
			}
			t.Logf("%d samples stand for %v, the clock says %v", len(samples), seen, loss.Clock)
		})
	}
}

// TestTwice: a host samples a process once at a time.
func TestTwice(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s, _ := enginetest.Attach(t, h.Open, g.PID(), Options{})
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	if _, err := h.Open(context.Background(), Options{PID: g.PID(), Sink: sink}); err == nil || !strings.Contains(err.Error(), "sampled already") {
		t.Errorf("second source: %v", err)
	}
	s.Close()
	again, _ := enginetest.Attach(t, h.Open, g.PID(), Options{})
	again.Close()
}

// TestManyTargets: ten thousand processes are in the program's map without being told of
// again at each join. A process that finds no room in it is refused, with the way out, and
// leaves nothing behind.
func TestManyTargets(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	const others = 10000
	noProcess := func(i int) *Source {
		s := bare(h, 1<<22+i, 0) // beyond any process
		s.interval = 50 * time.Millisecond
		return s
	}
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "calls", "60000", "1")
	g.Proceed(t)
	first := uint32(noProcess(0).t.PID)
	entry := programTarget{Started: 1}
	for i := range others {
		if err := h.join(&noProcess(i).seat); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := h.program.Targets.Put(first, &entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.program.Targets.Lookup(first, &entry); err != nil || entry.Started != 1 {
		t.Errorf("the first entry was written again: %+v, %v", entry, err)
	}
	s := joined(t, h, g.PID(), func(*programTarget) {})
	if err := s.SetInterval(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for !s.inbox.Waiting(true) {
		time.Sleep(time.Millisecond)
	}
	var err error
	last := others
	for ; err == nil; last++ {
		err = h.join(&noProcess(last).seat)
	}
	if last != mostTargets || !strings.Contains(err.Error(), "16384 processes") {
		t.Errorf("process %d is refused: %v", last+1, err)
	}
	if h.sources[uint32(noProcess(last-1).t.PID)] != nil {
		t.Error("a refused source is among those of the host")
	}
	each(s, func([]byte) {})
	for !s.inbox.Waiting(true) { // a target of before is sampled on
		time.Sleep(time.Millisecond)
	}
}

// TestReusedNumber: a process that has the number of a target, but began at another time,
// leaves no record.
func TestReusedNumber(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s := joined(t, h, g.PID(), func(e *programTarget) { e.Started++ })
	g.Proceed(t)
	for h.counted(reused) == 0 {
		time.Sleep(time.Millisecond)
	}
	h.drain()
	if s.inbox.Waiting(true) {
		t.Error("another process than the target left a record")
	}
}

// TestEndedBeforeJoin: a process that ends after its symbols were loaded is not joined. Its
// number may belong to another one by then.
func TestEndedBeforeJoin(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	for _, reap := range []bool{false, true} {
		g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
		o, err := Options{PID: g.PID(), Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		s := &Source{host: h, ages: make(ages), watch: new(hang.Watch), seat: seat{pid: uint32(g.PID()), interval: time.Millisecond}}
		if s.t, err = taker.Open(t.Context(), o, s.watch); err != nil {
			t.Fatal(err)
		}
		g.Cmd.Process.Kill()
		if reap {
			g.Cmd.Wait()
		}
		for !process.Ended(s.t.Pidfd) { // the last of its threads, too
			time.Sleep(time.Millisecond)
		}
		if err := s.startSampling(o); !errors.Is(err, sampler.ErrNoProcess) || len(h.sources) > 0 {
			t.Errorf("reaped %v: %v, and %d sources", reap, err, len(h.sources))
		}
		s.Close()
	}
}

// awaitState waits until a process is in a state of proc_pid_stat(5).
func awaitState(t *testing.T, pid int, state byte) {
	t.Helper()
	for {
		stat, err := process.ReadStat(pid)
		if err != nil {
			t.Fatal(err)
		}
		if stat.State == state {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestStopped: a target that is stopped and continued is sampled on.
func TestStopped(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond})
	g.Proceed(t)
	samples := func() uint64 { return s.Stats().Counts[sampler.Samples] }
	go func() {
		defer g.Cmd.Process.Kill()
		enginetest.AwaitSamples(t, s, 50)
		for range 3 {
			g.Cmd.Process.Signal(unix.SIGSTOP)
			awaitState(t, g.PID(), 'T')
			h.drain()
			before := samples()
			g.Cmd.Process.Signal(unix.SIGCONT)
			enginetest.AwaitSamples(t, s, before+50)
		}
	}()
	if _, ending := enginetest.Collect(t, s, sink); ending.Reason != "target was killed by SIGKILL" {
		t.Errorf("ending: %+v", ending)
	}
}

// TestManyThreads: of a thousand threads that live at once, and work for a millisecond
// each, many are seen.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	const threads = 1000
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "crowd", "1000")
	s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond})
	g.Proceed(t)
	samples, ending := enginetest.Collect(t, s, sink)
	tids := make(map[uint32]bool)
	for _, smp := range samples {
		if smp.Has("main.crowd.func1") {
			tids[smp.OSThread] = true
		}
	}
	if len(tids) < threads/10 || !ending.Exited {
		t.Errorf("%d samples, of %d threads; ending %+v", len(samples), len(tids), ending)
	}
	t.Logf("%d samples, of %d threads", len(samples), len(tids))
}

// TestInNamespaces: a target in a container has other numbers inside, another user, and
// other files.
func TestInNamespaces(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	const container = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"pid":       {Cloneflags: unix.CLONE_NEWPID},
		"container": {Cloneflags: container},
		"user":      {Cloneflags: container | unix.CLONE_NEWUSER, UidMappings: root, GidMappings: root},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(enginetest.Build(t, "workload"), "busy", "300")
			cmd.SysProcAttr = attr
			g := enginetest.StartCommand(t, cmd)
			s, sink := enginetest.Attach(t, h.Open, g.PID(), Options{Interval: time.Millisecond})
			g.Proceed(t)
			samples, ending := enginetest.Collect(t, s, sink)
			if len(samples) == 0 || !ending.Exited {
				t.Errorf("%d samples, ending %+v", len(samples), ending)
			}
		})
	}
}
