package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestProcessesBeforeAndAfter: a target takes processes that were there when the daemon began,
// and later ones within a scan.
func TestProcessesBeforeAndAfter(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		if s := mustTarget(t, d, "web"); s.State != Waiting || s.Reason != "no process fits" || len(s.Processes) != 0 {
			t.Errorf("without a process: %+v", s)
		}
		if _, err := d.Snapshot(t.Context(), "web", 0); !errors.Is(err, ErrNoProfile) {
			t.Errorf("profile of nothing: %v", err)
		}
		h.start(web(10))
		h.start(fakeProcess{Facts: facts(11, "/bin/sh"), file: process.FileID{Inode: 2}})
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		s := mustTarget(t, d, "web")
		if s.State != Sampling || len(s.Processes) != 1 || s.Processes[0].PID != 10 || s.Processes[0].BuildID != "build-1" || s.Processes[0].Engine != "fake" {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		if got := samplesOf(t, d, "web", 0)["main.work"]; got < 90 || got > 200 {
			t.Errorf("%d samples in a second", got)
		}
		if s := mustTarget(t, d, "web").Status; s.Samples < 90 || s.IntervalNS != int64(10*time.Millisecond) || s.Threads != 1 {
			t.Errorf("figures %+v", s)
		}
	})
}

// TestRestart: the map of a build goes on with the next process. Another build has a map of its
// own, and another user's process, too.
func TestRestart(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := h.start(web(10))
		time.Sleep(12 * time.Second)
		h.kill(first)
		time.Sleep(time.Second)
		if s := mustTarget(t, d, "web"); s.State != Waiting || s.Restarts != 1 {
			t.Errorf("after the end: %+v", s)
		}
		before := samplesOf(t, d, "web", 0)["main.work"]
		if before < 900 {
			t.Errorf("%d samples stay", before)
		}
		p := web(11)
		p.method = "main.again"
		second := h.start(p)
		time.Sleep(4 * time.Second)
		got := samplesOf(t, d, "web", 0)
		if got["main.work"] != before || got["main.again"] < 100 {
			t.Errorf("after a restart: %v, %d before", got, before)
		}
		h.kill(second)
		other := web(12)
		other.build, other.file, other.method = "build-2", process.FileID{Inode: 2}, "main.new"
		third := h.start(other)
		time.Sleep(4 * time.Second)
		if got := samplesOf(t, d, "web", 0); got["main.work"] != 0 || got["main.new"] < 100 {
			t.Errorf("of another build: %v", got)
		}
		h.kill(third)
		other.PID, other.Started, other.Owner, other.method = 13, 13, process.Owner{UID: 1000, GID: 1000, Traceable: true}, "main.theirs"
		h.start(other)
		time.Sleep(4 * time.Second)
		if got := samplesOf(t, d, "web", 13); got["main.new"] != 0 || got["main.theirs"] < 100 {
			t.Errorf("of another user: %v", got)
		}
		if got := fmt.Sprint(mustTarget(t, d, "web").Owners); got != "[{0 0 false} {1000 1000 true}]" {
			t.Errorf("the profile has samples of two users, and not of %s", got)
		}
	})
}

// TestSameBuildInAnotherFile: a file that was copied anew has the same map.
func TestSameBuildInAnotherFile(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := h.start(web(10))
		time.Sleep(4 * time.Second)
		h.kill(first)
		time.Sleep(time.Second)
		p := web(11)
		p.file, p.method = process.FileID{Inode: 7}, "main.again"
		h.start(p)
		time.Sleep(4 * time.Second)
		if got := samplesOf(t, d, "web", 0); got["main.work"] == 0 || got["main.again"] == 0 {
			t.Errorf("%v", got)
		}
		if h.attempts() != 3 {
			t.Errorf("attached %d times, want 3: once more with the map of the build", h.attempts())
		}
	})
}

// TestReplicas: the oldest processes are sampled, up to max, and a place that gets free is taken.
// Views merge them.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Targets[0].Max = 2 })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		started := map[int]*fakeProcess{}
		for _, pid := range []int{30, 10, 20} {
			p := web(pid)
			p.method = fmt.Sprintf("main.of%d", pid)
			started[pid] = h.start(p)
		}
		time.Sleep(10 * time.Second)
		got := samplesOf(t, d, "web", 0)
		if s := mustTarget(t, d, "web"); got["main.of10"] == 0 || got["main.of20"] == 0 || got["main.of30"] != 0 || s.LeftOut != 1 || len(s.Processes) != 3 {
			t.Errorf("%v, %+v", got, s)
		}
		if one := samplesOf(t, d, "web", 20); one["main.of10"] != 0 || one["main.of20"] == 0 {
			t.Errorf("of one process: %v", one)
		}
		h.kill(started[10])
		time.Sleep(time.Second)
		if got := samplesOf(t, d, "web", 0); got["main.of30"] == 0 || mustTarget(t, d, "web").LeftOut != 0 {
			t.Errorf("a place is free: %v", got)
		}
	})
}

// TestSnapshotIsFresh: a snapshot of several processes has what they have counted until it was asked for.
func TestSnapshotIsFresh(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		h.start(web(11))
		time.Sleep(4 * time.Second)
		first := samplesOf(t, d, "web", 0)["main.work"]
		time.Sleep(100 * time.Millisecond)
		if later := samplesOf(t, d, "web", 0)["main.work"]; later < first+15 {
			t.Errorf("a tenth of a second later: %d samples, %d before", later, first)
		}
	})
}

// TestRefused: a refusal has its reason, and is tried again, each time later, up to a minute.
func TestRefused(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		p := web(10)
		p.refuse = errRefused
		started := h.start(p)
		time.Sleep(3 * time.Second)
		s := mustTarget(t, d, "web")
		if s.State != Refused || s.Reason != errRefused.Error() || !strings.HasPrefix(s.Cure, "'ccmapd doctor @10' says") || s.NextTry == nil {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Minute)
		// 1 + 2 + 4 + … + 60 s, 20 % more or less: at least 600 s in steps of 72 s, and the first ones.
		if n := h.attempts(); n < 12 || n > 22 || uint64(n) != mustTarget(t, d, "web").Failures {
			t.Errorf("%d attempts in ten minutes", n)
		}
		h.mu.Lock()
		started.refuse = nil
		h.mu.Unlock()
		time.Sleep(80 * time.Second)
		if s := mustTarget(t, d, "web"); s.State != Sampling || s.Reason != "" || s.Cure != "" {
			t.Errorf("permitted again: %+v", s)
		}
	})
}

// TestBreak: the CPU time of a process between a session that an error has ended and the next one is in the
// profile's losses. Time before the first session is not.
func TestBreak(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		p := h.start(web(10))
		time.Sleep(5 * time.Second)
		h.fail(p, errors.New("no descriptor is free"))
		time.Sleep(5 * time.Second)
		if s := mustTarget(t, d, "web"); s.State != Sampling || s.Failures != 1 || h.attempts() != 2 {
			t.Errorf("%d attempts, %+v", h.attempts(), s)
		}
		profile, err := d.Snapshot(t.Context(), "web", 0)
		if err != nil {
			t.Fatal(err)
		}
		// The clock of the fake advances by a second with each attempt.
		if loss := profile.Meta().Loss; loss.Clock != time.Second || loss.Unaccounted != time.Second {
			t.Errorf("%+v, want a second on the clock, and unaccounted", loss)
		}
	})
}

// TestCrashLoop: a target whose processes end at once is attached to ever more rarely, and leaves
// nothing.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		for pid := range 3000 { // ten a second, for five minutes
			p := h.start(web(100 + pid))
			time.Sleep(90 * time.Millisecond)
			h.kill(p)
			time.Sleep(11 * time.Millisecond)
		}
		if n := h.attempts(); n < 5 || n > 16 {
			t.Errorf("%d attempts in five minutes", n)
		}
		slots, followers := len(slotsOf(d)), len(d.roster.all()[0].all())
		if slots > 1 || followers > 1 {
			t.Errorf("%d slots and %d followers are left", slots, followers)
		}
		h.start(web(5000))
		time.Sleep(75 * time.Second)
		if s := mustTarget(t, d, "web"); s.State != Sampling {
			t.Errorf("a process that lives: %+v", s)
		}
	})
}

// TestHungProcesses: a process that has cost a thread is not read again while it lives, whoever asks, and of an
// owner whose processes have cost many threads none is. Others are sampled.
func TestHungProcesses(t *testing.T) {
	t.Parallel()
	const hungBound = 16 // see package supervise
	c := webConfig(func(c *config.Config) { c.Targets[0].Max = 2 * hungBound })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		start := func(pid, owner int, refuse error) *fakeProcess {
			p := web(pid)
			p.UID, p.refuse = owner, refuse
			return h.start(p)
		}
		var hung []*fakeProcess
		for i := range hungBound {
			hung = append(hung, start(10+i, 1, fmt.Errorf("load symbols: %w", hang.ErrHung)))
		}
		time.Sleep(5 * time.Minute)
		if n := h.attempts(); n != hungBound {
			t.Errorf("%d attempts to attach to %d processes", n, hungBound)
		}
		s := mustTarget(t, d, "web")
		if p := s.Processes[0]; p.State != Refused || p.NextTry != nil || !strings.Contains(p.Cure, "thread") {
			t.Errorf("%+v", p)
		}
		start(100, 1, nil)
		start(200, 2, nil)
		time.Sleep(5 * time.Second)
		if err := errors.Join(d.Pause("web"), d.Resume("web")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := h.attempts(); n != hungBound+2 || samplesOf(t, d, "web", 200)["main.work"] == 0 {
			t.Errorf("%d attempts, and another owner's process has %v", n, samplesOf(t, d, "web", 200))
		}
		for _, p := range hung {
			h.kill(p)
		}
		time.Sleep(2 * time.Minute)
		if s := mustTarget(t, d, "web"); len(s.Processes) != 2 || samplesOf(t, d, "web", 100)["main.work"] == 0 {
			t.Errorf("after their end: %+v", s)
		}
	})
}

// TestReusedNumber: a number that becomes another process's while it is attached to is not
// sampled as the one that was found.
func TestReusedNumber(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		found := h.start(web(10))
		h.mu.Lock()
		h.onOpen = func(pid int) {
			h.mu.Lock()
			h.onOpen = nil
			h.mu.Unlock()
			h.kill(found)
			p := fakeProcess{Facts: facts(10, "/srv/other"), file: process.FileID{Inode: 9}, method: "main.secret"}
			p.Started = 99
			h.start(p)
		}
		h.mu.Unlock()
		time.Sleep(10 * time.Second)
		if _, err := d.Snapshot(t.Context(), "web", 0); !errors.Is(err, ErrNoProfile) {
			t.Errorf("%v, %+v", err, mustTarget(t, d, "web"))
		}
	})
}

// TestExec: a process that replaces itself by another program is looked at again at once.
func TestExec(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		p := h.start(web(10))
		time.Sleep(4 * time.Second)
		next := web(0)
		next.build, next.file, next.method = "build-2", process.FileID{Inode: 2}, "main.next"
		p = h.exec(p, next)
		time.Sleep(500 * time.Millisecond)
		if got := samplesOf(t, d, "web", 0); got["main.next"] < 20 {
			t.Errorf("half a second after exec: %v", got)
		}
		h.exec(p, fakeProcess{Facts: facts(0, "/bin/sh"), file: process.FileID{Inode: 3}})
		time.Sleep(500 * time.Millisecond)
		if s := mustTarget(t, d, "web"); s.State != Waiting {
			t.Errorf("after exec of a shell: %+v", s)
		}
	})
}

// TestHangingExecutable: a file system that does not answer holds up its own processes alone, and
// no request. When it answers, they are sampled.
func TestHangingExecutable(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		answer := make(chan struct{})
		hangs := web(10)
		hangs.hangs = answer
		h.start(hangs)
		h.start(web(11))
		time.Sleep(5 * time.Second)
		s := mustTarget(t, d, "web") // takes the lock
		if len(s.Processes) != 1 || s.Processes[0].PID != 11 || s.State != Sampling {
			t.Errorf("beside a file system that hangs: %+v", s)
		}
		if h.turns.Load() < 3 {
			t.Errorf("%d turns in 5 s", h.turns.Load())
		}
		close(answer)
		time.Sleep(2 * time.Second)
		if s := mustTarget(t, d, "web"); len(s.Processes) != 2 {
			t.Errorf("after the answer: %+v", s)
		}
	})
}

// TestExecBesideFiling: a process that has become another program is sampled while samples of the
// old one wait to be filed.
func TestExecBesideFiling(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Store.Files, c.Store.Dir = true, t.TempDir() })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		p := h.start(web(10))
		time.Sleep(3 * time.Second)
		filing := d.roster.all()[0].filing
		filing <- struct{}{}
		defer func() { <-filing }()
		next := web(0)
		next.build, next.file, next.method = "build-2", process.FileID{Inode: 2}, "main.next"
		h.exec(p, next)
		time.Sleep(300 * time.Millisecond)
		if got := samplesOf(t, d, "web", 10); got["main.next"] == 0 {
			t.Errorf("0.3 s after exec: %v", got)
		}
	})
}

// TestExecBeforeItWasTaken: a process that was found as another program is found again.
func TestExecBeforeItWasTaken(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		shell := h.start(fakeProcess{Facts: facts(10, "/bin/sh"), file: process.FileID{Inode: 3}})
		time.Sleep(3 * time.Second)
		h.exec(shell, web(0))
		time.Sleep(10 * time.Second)
		if s := mustTarget(t, d, "web"); s.State != Sampling {
			t.Errorf("%+v", s)
		}
	})
}

// TestStrangers: an executable that is neither a Go program nor a JVM is opened at most once or twice a minute,
// whatever its processes.
func TestStrangers(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		for pid := range 5 {
			p := web(10 + pid)
			p.refuse = sampler.ErrNotManaged
			h.start(p)
			time.Sleep(3 * time.Second)
		}
		time.Sleep(time.Hour)
		if s := mustTarget(t, d, "web"); h.attempts() > 150 || s.NotManaged != 5 || s.State != Waiting || s.Reason != "the processes that fit are neither Go programs nor JVMs" {
			t.Errorf("%d attempts, %+v", h.attempts(), s)
		}
	})
}

// TestLateRuntime: a process that is nothing known when it is found, as the launcher of a JVM is
// for a moment, is sampled once it is known. Others of its executable wait no longer than it does.
func TestLateRuntime(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		for pid := range 3 {
			p := web(10 + pid)
			p.refuse = sampler.ErrNotManaged
			launched := h.start(p)
			time.Sleep(1500 * time.Millisecond)
			h.mu.Lock()
			launched.refuse = nil
			h.mu.Unlock()
			time.Sleep(10 * time.Second)
			if n := h.nowSampled(); n != pid+1 {
				t.Fatalf("%d of %d processes are sampled", n, pid+1)
			}
		}
	})
}

// TestLooks: processes that are of no target are looked at ever more rarely.
func TestLooks(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		const processes = 100
		for pid := range processes {
			h.start(fakeProcess{Facts: facts(10+pid, "/bin/sh")})
		}
		time.Sleep(time.Hour)
		h.mu.Lock()
		defer h.mu.Unlock()
		if each := h.looks / processes; each < 10 || each > 25 {
			t.Errorf("%d looks at each process in an hour", each)
		}
	})
}

// TestReload: a target that is unchanged goes on, a changed one begins anew, and a removed one ends.
// A bad configuration changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) {
		for _, name := range []string{"api", "job"} {
			c.Targets = append(c.Targets, config.Target{Name: name, Match: config.Match{Exe: "/srv/" + name}, Settings: c.Defaults})
		}
	})
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		for i, exe := range []string{"/srv/web", "/srv/api", "/srv/job"} {
			h.start(fakeProcess{Facts: facts(10+i, exe), file: process.FileID{Inode: uint64(10 + i)}, build: exe})
		}
		time.Sleep(10 * time.Second)
		var failure error
		next := *c
		d.load = func() (*config.Config, error) { return &next, failure }
		failure = errors.New("line 3, column 1: unknown key")
		if err := d.Reload(); !errors.Is(err, failure) || d.Config() != c || d.LastReload() != failure {
			t.Errorf("a bad configuration: %v, %v", err, d.LastReload())
		}
		failure = nil
		next.Targets = []config.Target{c.Targets[0], c.Targets[1]}
		next.Targets[1].Interval = 5 * time.Millisecond
		before := h.attempts()
		if err := errors.Join(d.Reload(), d.LastReload()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := h.attempts() - before; got != 1 {
			t.Errorf("attached %d times after reload, want 1", got)
		}
		if s := mustTarget(t, d, "web").Status; s.Samples < 1000 {
			t.Errorf("the unchanged target has %d samples", s.Samples)
		}
		if s := mustTarget(t, d, "api").Status; s.Samples > 600 || s.Samples < 300 || s.IntervalNS != int64(5*time.Millisecond) {
			t.Errorf("the changed target %+v", s)
		}
		if _, err := d.Target("job"); !errors.Is(err, ErrNoTarget) || h.nowSampled() != 2 {
			t.Errorf("the removed target: %v, %d processes are sampled", err, h.nowSampled())
		}
		next.Listen.Open = true
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		if e := d.events.kept[len(d.events.kept)-1]; e.Kind != EventReload || !strings.Contains(e.Text, "listen") {
			t.Errorf("nobody is told that [listen] waits for a start: %+v", e)
		}
	})
}

// TestAttach: a process that no rule fits gets a target of its own, which ends with it.
func TestAttach(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		one := h.start(fakeProcess{Facts: facts(10, "/opt/One Program"), file: process.FileID{Inode: 5}, build: "b"})
		name, err := d.Attach(t.Context(), 10)
		if err != nil || name != "One_Program-10" {
			t.Fatalf("%q, %v", name, err)
		}
		if again, err := d.Attach(t.Context(), 10); again != name || err != nil {
			t.Errorf("attached again: %q, %v", again, err)
		}
		time.Sleep(time.Second)
		if got := samplesOf(t, d, name, 0)["main.work"]; got < 90 {
			t.Errorf("%d samples", got)
		}
		h.kill(one)
		time.Sleep(3 * time.Second)
		if s := mustTarget(t, d, name); s.State != Ended || s.Reason != "target exited with code 0" || s.Rule != "pid 10" {
			t.Errorf("%+v", s)
		}
		samplesOf(t, d, name, 0) // stays, for its owner
		if got := fmt.Sprint(mustTarget(t, d, name).Owners); got != "[{0 0 false}]" {
			t.Errorf("owners of the profile: %s", got)
		}
		time.Sleep(2 * endedFor)
		if _, err := d.Target(name); !errors.Is(err, ErrNoTarget) {
			t.Errorf("long after its end: %v", err)
		}
		if _, err := d.Attach(t.Context(), 4242); !errors.Is(err, sampler.ErrNoProcess) {
			t.Errorf("no process: %v", err)
		}
		refused := web(11)
		refused.Executable, refused.refuse = "/opt/other", errRefused
		h.start(refused)
		if _, err := d.Attach(t.Context(), 11); !errors.Is(err, sampler.ErrPermission) {
			t.Errorf("refused: %v", err)
		}
		if len(d.Targets()) != 1 {
			t.Errorf("a refused process left a target: %+v", d.Targets())
		}
		h.start(web(12))
		if name, err := d.Attach(t.Context(), 12); err != nil || d.Detach(name) != nil || len(d.Targets()) != 1 {
			t.Errorf("detached: %v, %v", err, d.Targets())
		}
		other := web(13)
		other.Executable = "/opt/二" // no letter that names of targets may have
		h.start(other)
		name, err = d.Attach(t.Context(), 13)
		if name != "process-13" {
			t.Errorf("named %q", name)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if again, err2 := d.Attach(gone, 13); err != nil || err2 != nil || again != name || len(d.Targets()) != 2 {
			t.Errorf("attached twice, and one has left: %q, %v, %v", again, err, err2)
		}
		if err := d.Detach("web"); !errors.Is(err, ErrConfigured) {
			t.Errorf("detached a configured target: %v", err)
		}
	})
}

// TestAttachToTargets: a process of a target is the target's, however its first attempt went. If it waits there, the
// error says for what.
func TestAttachToTargets(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Targets[0].Max = 1 })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		p := web(10)
		p.refuse = errRefused
		started := h.start(p)
		h.start(web(11))
		time.Sleep(3 * time.Second)
		h.mu.Lock()
		started.refuse = nil
		h.mu.Unlock()
		time.Sleep(time.Minute)
		if name, err := d.Attach(t.Context(), 10); name != "web" || err != nil {
			t.Errorf("sampled at a later attempt: %q, %v", name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := d.Attach(ctx, 11); !errors.Is(err, ErrWaits) || !strings.Contains(err.Error(), "max") {
			t.Errorf("beyond max: %v", err)
		}
		if err := d.Pause("web"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if _, err := d.Attach(ctx, 10); !errors.Is(err, ErrWaits) || !strings.Contains(err.Error(), "paused") {
			t.Errorf("paused: %v", err)
		}
	})
}

// TestAttachBeyondBudget: a daemon without room for another target says so, and has room again after a detach.
func TestAttachBeyondBudget(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Targets, c.Budget.Targets = nil, 1 })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		h.start(web(11))
		name, err := d.Attach(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Attach(t.Context(), 11); !errors.Is(err, ErrFull) {
			t.Errorf("beyond the budget: %v", err)
		}
		if err := d.Detach(name); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := d.Attach(t.Context(), 11); err != nil {
			t.Errorf("after a detach: %v", err)
		}
	})
}

// TestAttachAtEnd: a daemon that ends attaches to nothing more, and gives up an attempt.
func TestAttachAtEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost()
		d, err := newDaemon(Options{Load: func() (*config.Config, error) { return webConfig(), nil }, Engines: h.engines()}, h)
		if err != nil {
			t.Fatal(err)
		}
		h.start(web(10))
		h.start(web(11))
		opening := make(chan struct{})
		h.onOpen = func(int) { close(opening); <-d.ctx.Done() }
		h.all[10].refuse = context.Canceled
		attempt := make(chan error)
		go func() { _, err := d.Attach(t.Context(), 10); attempt <- err }()
		<-opening
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if err := <-attempt; !errors.Is(err, ErrEnds) {
			t.Errorf("an attempt: %v", err)
		}
		if _, err := d.Attach(t.Context(), 11); !errors.Is(err, ErrEnds) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestPause: the maps of a paused target stay, and go on with the same process.
func TestPause(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		time.Sleep(10 * time.Second)
		if err := d.Pause("web"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := samplesOf(t, d, "web", 0)["main.work"]
		time.Sleep(time.Minute)
		if s := mustTarget(t, d, "web"); s.State != Paused || h.nowSampled() != 0 || samplesOf(t, d, "web", 0)["main.work"] != before {
			t.Errorf("paused: %+v", s)
		}
		if err := d.Resume("web"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := samplesOf(t, d, "web", 0)["main.work"]; got < before+50 {
			t.Errorf("resumed: %d samples, %d before", got, before)
		}
		if err := errors.Join(d.Pause("none"), d.Resume("none")); !errors.Is(err, ErrNoTarget) {
			t.Errorf("no target: %v", err)
		}
	})
}

// TestEvents: a reader gets what was kept, and then what comes. One that does not read holds up
// nothing.
func TestEvents(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		_, idle := d.Events(0)
		defer idle()
		h.start(web(10))
		time.Sleep(3 * time.Second)
		events, cancel := d.Events(0)
		want := []string{"attaching", "sampling: fake: the best engine, and permitted"}
		for i, text := range want {
			if e := <-events; e.Seq != uint64(i+1) || e.Target != "web" || e.PID != 10 || e.Text != text {
				t.Errorf("event %+v, want %q", e, text)
			}
		}
		for range 10 * keptEvents {
			d.events.raise(Event{Kind: EventLoss})
		}
		if e := <-events; e.Kind != EventLoss || e.Seq != 3 {
			t.Errorf("event %+v", e)
		}
		cancel()
		cancel()
		late, end := d.Events(2 + 10*keptEvents - 1)
		if e := <-late; e.Seq != 2+10*keptEvents {
			t.Errorf("event %d", e.Seq)
		}
		end()
		for range late {
			t.Error("an event after the end")
		}
		if err := d.Pause("web"); err != nil {
			t.Fatal(err)
		}
		last, end := d.Events(2 + 10*keptEvents)
		defer end()
		if e := <-last; e.Kind != EventState || e.Target != "web" || e.PID != 10 || e.Text != "paused" {
			t.Errorf("event %+v of a pause", e)
		}
	})
}

// TestCheck: serve --check tells what would be sampled.
func TestCheck(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	c := webConfig(func(c *config.Config) { c.Targets[0].Max = 1 })
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }, Engines: h.engines()}, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{20, 10} {
		h.start(web(pid))
	}
	h.start(fakeProcess{Facts: facts(11, "/bin/sh")})
	got, err := d.Check()
	want := []Candidate{{Target: "web", PID: 10, Executable: "/srv/web", User: "root"}, {Target: "web", PID: 20, Executable: "/srv/web", User: "root", LeftOut: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || h.attempts() != 0 {
		t.Errorf("%v, %d attempts (-want +got):\n%s", err, h.attempts(), diff)
	}
}

// TestHiddenExecutable: where the daemon may not see an executable, the state of a target says that the
// process may be one of its own, until the process ends or can be seen.
func TestHiddenExecutable(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		hidden := func(pid int, name string) fakeProcess {
			return fakeProcess{Facts: process.Facts{PID: pid, Started: uint64(pid), Name: name}}
		}
		first, second := h.start(hidden(10, "web")), h.start(hidden(11, "web"))
		h.start(hidden(12, "database"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		s := mustTarget(t, d, "web")
		if s.State != Waiting || !strings.Contains(s.Reason, "of 2 by such a name") || !strings.Contains(s.Cure, "CAP_SYS_PTRACE") {
			t.Errorf("two hidden: %+v", s)
		}
		h.kill(first)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := mustTarget(t, d, "web"); !strings.Contains(s.Reason, "of 1 by such a name") {
			t.Errorf("one hidden: %+v", s)
		}
		h.kill(second)
		h.start(web(11))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := mustTarget(t, d, "web"); s.State != Sampling || s.Reason != "" {
			t.Errorf("seen: %+v", s)
		}
	})
}
