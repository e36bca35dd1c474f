package daemon

import (
	"context"
	"testing"
	"time"
)

// TestCountersNeverFall: counters of a target have its ended processes, too, and count nothing
// twice that a map has from an earlier process. A scraper would take a fall for a restart.
func TestCountersNeverFall(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := h.start(web(10))
		h.start(web(11))
		time.Sleep(10 * time.Second)
		before := mustTarget(t, d, "web")
		if c := before.Counters; c.Samples == 0 || c.Samples != before.Status.Samples || c.SampledNS != before.Status.SampledNS {
			t.Errorf("counters %+v, figures %+v", c, before.Status)
		}
		h.kill(first)
		time.Sleep(time.Second)
		after := mustTarget(t, d, "web")
		if after.Status.Samples >= before.Status.Samples || after.Counters.Samples < before.Counters.Samples {
			t.Errorf("after the end of a process: counters %+v, figures %+v", after.Counters, after.Status)
		}
		for _, s := range slotsOf(d) {
			if !s.busy {
				s.m.Meta().Pruned.Nodes = 7 // by the first process
			}
		}
		h.start(web(12))
		time.Sleep(10 * time.Second)
		if s := mustTarget(t, d, "web"); s.Status.PrunedNodes != 7 || s.Counters.PrunedNodes != 0 {
			t.Errorf("%d nodes were pruned, counted as %d", s.Status.PrunedNodes, s.Counters.PrunedNodes)
		}
		refused := web(13)
		refused.refuse = errRefused
		h.start(refused)
		time.Sleep(time.Minute)
		if s := mustTarget(t, d, "web"); s.Counters.Failures.NotPermitted == 0 || s.Counters.Failures.NotPermitted != s.Failures {
			t.Errorf("failures %+v of %d", s.Counters.Failures, s.Failures)
		}
	})
}

// TestHealth: a daemon is ready after its first scan.
func TestHealth(t *testing.T) {
	t.Parallel()
	d, err := newDaemon(Options{Engines: newFakeHost().engines()}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	if d.Ready() == nil {
		t.Error("ready before the first scan")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Run(ctx); err != nil || d.Ready() != nil || d.Healthy() != nil {
		t.Errorf("%v, %v, %v", err, d.Ready(), d.Healthy())
	}
}

// TestHealthAfterSlowAttach: a session is well, however long attaching has taken.
func TestHealthAfterSlowAttach(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.onOpen = func(int) { time.Sleep(2 * lateTurn) }
		h.start(web(10))
		time.Sleep(3 * lateTurn)
		if s := mustTarget(t, d, "web"); s.State != Sampling || d.Healthy() != nil {
			t.Errorf("%s: %v", s.State, d.Healthy())
		}
	})
}

// TestTurn: the daemon tells that it is alive from its first look for processes on, unless a session is
// stuck.
func TestTurn(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		if n := h.turns.Load(); n != 1 {
			t.Errorf("%d turns at the start", n)
		}
		h.start(web(10))
		time.Sleep(10*time.Second + time.Millisecond)
		if n := h.turns.Load(); n != 11 {
			t.Errorf("%d turns after ten seconds", n)
		}
		for _, s := range d.roster.sessions() { // whose manager says that it has run for ten seconds
			stuck := &session{Recording: s.Recording, follower: s.follower, slot: s.slot, began: s.began.Add(-time.Hour)}
			s.follower.shelf.mu.Lock()
			s.slot.session = stuck
			s.follower.shelf.mu.Unlock()
		}
		time.Sleep(10 * time.Second)
		if n := h.turns.Load(); n != 11 {
			t.Errorf("%d turns while a session is stuck", n-11)
		}
	})
}
