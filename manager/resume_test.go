package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// next returns a further session of a map, with a source like the first one's.
func (s *session) next() *session {
	s.config.Map.ForgetThreads()
	source := &fakeSource{stats: s.source.stats, info: s.source.info, run: s.source.run}
	config := s.config
	config.Source = source
	return &session{source, config}
}

// TestMapOutlivesItsSession: a map goes on with the next process of its program. All that its
// metadata counts adds up, and changes of the interval count from its start.
func TestMapOutlivesItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for i := range 10 {
				one := stack(names, "leaf", "root")
				one.Top = []ccmap.Repetition{ccmap.TopNew, ccmap.TopRepeated}[i%2]
				r.Push(one)
			}
			r.Push(&ccmap.Sample{}) // corrupt: the map counts it
			r.Push(caughtCall(stack(names, "callee", "root")))
			time.Sleep(time.Minute)
		})
		first.source.stats.Loss = ccmap.Loss{Source: 5, Throttled: 2, Corrupt: 3, Clock: time.Second, Unaccounted: -1}
		first.mustRun(t)
		time.Sleep(time.Hour)
		second := first.next()
		m := second.mustStart(t)
		if got := m.Snapshot().Total().Samples; got != 10 {
			t.Errorf("the session begins with %d samples, want 10", got)
		}
		r, err := m.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		meta := r.Snapshot.Meta()
		if meta.Known != 20 || meta.Repeated != 10 || meta.Duration.Truncate(time.Second) != 2*time.Minute || meta.Ended != "stopped" {
			t.Errorf("known %d, repeated %d, duration %v, ended %q", meta.Known, meta.Repeated, meta.Duration, meta.Ended)
		}
		want := ccmap.Loss{Source: 10, Throttled: 4, Corrupt: 8, Clock: 2 * time.Second, Unaccounted: -2}
		if diff := cmp.Diff(want, meta.Loss); diff != "" {
			t.Errorf("loss (-want +got):\n%s", diff)
		}
		points := r.Snapshot.Points()
		if len(points) != 2 || points[0].Count != 2 || points[1].Count != 2 {
			t.Errorf("points %+v", points)
		}
		status := m.Status()
		if status.Samples != 11 || status.Known != 10 || status.Loss.Source != 5 || status.Loss.Corrupt != 4 {
			t.Errorf("status of the second session %+v", status)
		}
		if len(meta.Interval) != 1 {
			t.Errorf("intervals %+v: the second session begins with the interval of the first", meta.Interval)
		}
		third := second.next()
		third.source.stats.Interval = time.Second
		changes := third.mustRun(t).Snapshot.Meta().Interval
		if len(changes) != 2 || changes[1].At.Truncate(time.Minute) != 62*time.Minute {
			t.Errorf("intervals %+v", changes)
		}
	})
}

// TestSessionsRepeatNoComment: a map has a warning once, however many sessions gave it, and the
// overhead of the last session.
func TestSessionsRepeatNoComment(t *testing.T) {
	t.Parallel()
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) { r.Push(stack(names, "leaf")) })
	s.config.Map.Meta().Comments = []string{"own"}
	s.source.stats.Warning = "one is missing"
	for i := range 3 {
		s.source.stats.Overhead = sampler.Overhead{Of: 100 * time.Second, Samples: time.Duration(i+1) * time.Second}
		s.mustRun(t)
		s = s.next()
	}
	got := s.config.Map.Meta().Comments
	want := []string{"own", "warning: one is missing", s.source.stats.Overhead.String()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("comments (-want +got):\n%s", diff)
	}
}

// TestIntervalChangesAreBounded: the first one stays, and the latest, whether the tuner or the target sets them.
func TestIntervalChangesAreBounded(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(*Manager){
		"tuner":  func(m *Manager) { m.keepInterval(time.Since(m.start), "changed") },
		"target": (*Manager).followInterval,
	} {
		s := newSession(nil)
		m := s.mustStart(t)
		m.beginSession()
		for i := range 3 * mostChanges {
			s.source.stats.Interval = time.Duration(i)
			keep(m)
		}
		changes := s.config.Map.Meta().Interval
		if n := len(changes); n != mostChanges || changes[0].Reason != "initial" || changes[n-1].Interval != 3*mostChanges-1 {
			t.Errorf("%s: %d changes, the first %+v, the last %+v", name, n, changes[0], changes[n-1])
		}
	}
}

// TestHotOnceInAMap: a method that was hot in an earlier session raises no event again.
func TestHotOnceInAMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raised := map[string]int{}
		leaf := "first"
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range 100 {
				r.Push(stack(names, leaf, "root"))
				time.Sleep(100 * time.Millisecond)
			}
		})
		s.config.Hot = Thresholds{Method: Threshold{Time: 50 * time.Millisecond}}
		s.config.OnHot = func(e Event) { raised[s.config.Map.Names().At(e.Method).Name]++ }
		s.mustRun(t)
		leaf = "second"
		s.next().mustRun(t)
		if diff := cmp.Diff(map[string]int{"root": 1, "first": 1, "second": 1}, raised); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestFresh: a fresh snapshot has all that was folded before the call, also if another reader
// has just asked, and the final one after the end.
func TestFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(ctx context.Context, r *queue.Ring, names *ccmap.Names) {
			for ctx.Err() == nil {
				r.Push(stack(names, "leaf"))
				time.Sleep(10 * time.Millisecond)
			}
		})
		m := s.mustStart(t)
		ctx, stop := context.WithCancel(t.Context())
		var report Report
		done := make(chan struct{})
		go func() {
			defer close(done)
			report, _ = m.Run(ctx)
		}()
		time.Sleep(time.Minute)
		for range 3 {
			m.Snapshot()
			asked := time.Now()
			have := m.Status().Samples
			fresh, err := m.Fresh(t.Context())
			if err != nil || fresh.Total().Samples < int64(have) {
				t.Errorf("%d samples of %d, %v", fresh.Total().Samples, have, err)
			}
			if waited := time.Since(asked); waited > defaultPublishEvery+tick {
				t.Errorf("waited %v", waited)
			}
		}
		expired, cancel := context.WithCancel(t.Context())
		cancel()
		if last, err := m.Fresh(expired); !errors.Is(err, context.Canceled) || last == nil {
			t.Errorf("a reader that does not wait got %v, %v", last, err)
		}
		stop()
		<-done
		if final, err := m.Fresh(t.Context()); err != nil || final != report.Snapshot {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestFreshOfAnIdleTarget: nothing has changed, and the reader need not wait for a sample.
func TestFreshOfAnIdleTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(ctx context.Context, _ *queue.Ring, _ *ccmap.Names) { <-ctx.Done() })
		session := mustStart(t, t.Context(), s.config)
		if _, err := session.manager.Fresh(t.Context()); err != nil {
			t.Error(err)
		}
		session.Stop()
	})
}

// TestDaemonCPU: the tuner and the report hear of the session's own share.
func TestDaemonCPU(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			r.Push(stack(names, "leaf"))
			time.Sleep(10 * time.Second)
		})
		begin := time.Now()
		s.config.DaemonCPU = func() time.Duration { return time.Since(begin) / 4 }
		var heard time.Duration
		s.config.Tuner = &fakeTuner{decide: func(o tuning.Observation) (tuning.Decision, bool) {
			heard += o.DaemonCPU
			return tuning.Decision{}, false
		}}
		if r := s.mustRun(t); heard != r.CPU || r.CPU.Round(time.Second/2) != 2500*time.Millisecond {
			t.Errorf("the tuner heard of %v, the report of %v", heard, r.CPU)
		}
	})
}

// TestSetMaxBytes: a smaller bound holds from the next turn on.
func TestSetMaxBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(ctx context.Context, r *queue.Ring, names *ccmap.Names) {
			for i := range 5000 { // contexts by the thousand, of 16 edges
				one := stack(names, "a", "b", "c", "d", "a", "b", "c", "d")
				for j := range one.Frames {
					one.Frames[j] = ccmap.Frame{Method: ccmap.FirstID + ccmap.MethodID(i>>(2*j)&3), Offset: 1}
				}
				r.Push(one)
				time.Sleep(time.Millisecond)
			}
			<-ctx.Done()
		})
		session := mustStart(t, t.Context(), s.config)
		time.Sleep(10 * time.Second)
		before := session.Status().Bytes
		session.manager.SetMaxBytes(before / 2)
		time.Sleep(tick)
		synctest.Wait()
		if now := session.Status(); now.Bytes > before/2 || now.Pruned.Times == 0 {
			t.Errorf("%d bytes, %d before, pruned %+v", now.Bytes, before, now.Pruned)
		}
		session.Stop()
	})
}
