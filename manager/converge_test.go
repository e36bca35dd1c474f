package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/tuning"
)

// sampleUntilDone returns a function that pushes samples of workloads until the context
// is done: one every 10 ms, each samples of one workload before the next workload.
func sampleUntilDone(each int, prefixes ...string) func(context.Context, *queue.Ring, *ccmap.Names) {
	return func(ctx context.Context, r *queue.Ring, names *ccmap.Names) {
		var all []*workload
		for i, prefix := range prefixes {
			all = append(all, newWorkload(names, prefix, uint64(i)))
		}
		for i := 0; ctx.Err() == nil; i++ {
			r.Push(all[i/each%len(all)].next())
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// runFor runs the session for a time.
func (s *session) runFor(t *testing.T, d time.Duration) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r, err := s.mustStart(t).Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUntilStopsTheSession(t *testing.T) {
	t.Parallel()
	for _, goal := range []Goal{{Edges, 93}, {Methods, 95}, {Contexts, 90}} {
		t.Run(goal.Of.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSession(sampleUntilDone(1e9, "a."))
				s.config.Until = goal
				r := s.runFor(t, time.Hour)
				meta := r.Snapshot.Meta()
				if !r.Reached {
					t.Error("the goal was not reached")
				}
				if got := goal.Of.Settled(meta.Settled); got < goal.Percent || meta.Settled.Samples < goalSamples {
					t.Errorf("settled %+v, want %v", meta.Settled, goal)
				}
				if want := "stopped: " + goal.Of.String() + " are settled to 9"; !strings.HasPrefix(meta.Ended, want) {
					t.Errorf("ended: %q, want %q…", meta.Ended, want)
				}
			})
		})
	}
}

func TestDurationComesBeforeTheGoal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(sampleUntilDone(1e9, "a."))
		s.config.Until = Goal{Edges, 99.9}
		meta := s.runFor(t, time.Minute).Snapshot.Meta()
		if meta.Ended != "stopped: context deadline exceeded" {
			t.Errorf("ended: %q", meta.Ended)
		}
		if s := meta.Settled; s.Samples < 5990 || s.Edges < 90 || s.Contexts > s.Methods {
			t.Errorf("settled %+v after 6,000 samples", s)
		}
	})
}

// The halves of a program that has done only one thing so far agree at once. So goals
// need a least number of samples.
func TestFewSamplesAreNoGoal(t *testing.T) {
	t.Parallel()
	perfect := ccmap.Settled{Methods: 100, Edges: 100, Contexts: 100}
	for _, test := range []struct {
		goal        Goal
		samples     int64
		independent float64
		want        bool
	}{
		{Goal{Edges, 95}, 10, 10, false},
		{Goal{Edges, 95}, goalSamples - 1, goalSamples - 1, false},
		{Goal{Edges, 95}, goalSamples, goalSamples, true},
		{Goal{Edges, 95}, goalSamples, 59, false},
		{Goal{Edges, 95}, goalSamples, 61, true},
		{Goal{Edges, 99.9}, goalSamples, goalSamples, false},
		{Goal{Edges, 99.9}, 4000, 4000, true},
		{Goal{}, 4000, 4000, false},
	} {
		perfect.Samples = test.samples
		if got := test.goal.reached(perfect, test.independent); got != test.want {
			t.Errorf("%v, %d samples, %v of them independent: reached %v, want %v", test.goal, test.samples, test.independent, got, test.want)
		}
	}
}

// Agreeing halves do not reach a goal while the program drifts.
func TestDriftIsNoGoal(t *testing.T) {
	t.Parallel()
	s := newSession(nil)
	s.config.Until = Goal{Edges, 95}
	m := s.mustStart(t)
	var stopped error
	m.stop = func(cause error) { stopped = cause }
	a := answer{converged: ccmap.Settled{Edges: 99, Samples: 5000}, independent: 5000, drift: true}
	if m.learn(a); stopped != nil {
		t.Errorf("stopped while the program drifted: %v", stopped)
	}
	a.drift = false
	const want = "edges are settled to 99.0 % (95 % wanted)"
	if m.learn(a); stopped == nil || stopped.Error() != want {
		t.Errorf("stopped: %v, want %q", stopped, want)
	}
}

func TestGoalsAreChecked(t *testing.T) {
	t.Parallel()
	for _, goal := range []Goal{{Edges, -1}, {Edges, 100}, {Contexts, 0}, {7, 50}} {
		s := newSession(nil)
		s.config.Until = goal
		if _, err := New(s.config); err == nil {
			t.Errorf("no error for %v", goal)
		}
	}
}

// The tuner hears how far the map has converged, and of drift.
func TestTunerHearsOfConvergenceAndDrift(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var settled float64
		drifts := 0
		s := newSession(sampleUntilDone(steadySamples+2000, "a.", "b."))
		tuner := &fakeTuner{}
		tuner.decide = func(o tuning.Observation) (tuning.Decision, bool) {
			switch {
			case o.Drift:
				drifts++
			case drifts == 0:
				settled = o.Settled
			}
			if o.Settled > 0 && tuner.samples.Load() < steadySamples {
				t.Errorf("settled to %.1f %% after %d samples", o.Settled, tuner.samples.Load())
			}
			return tuning.Decision{}, false
		}
		s.config.Tuner = tuner
		s.runFor(t, 150*time.Second)
		if settled < 85 || settled >= 100 {
			t.Errorf("the first phase settled to %.1f %%", settled)
		}
		if drifts == 0 {
			t.Error("the second phase was no drift")
		}
	})
}

func TestStatusSaysHowSettledTheMapIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(sampleUntilDone(1e9, "a."))
		m := s.mustStart(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		time.Sleep(time.Second)
		if got := m.Status().Settled; got != (ccmap.Settled{}) {
			t.Errorf("settled %+v after 100 samples", got)
		}
		time.Sleep(time.Minute)
		first := m.Status().Settled
		time.Sleep(5 * time.Minute)
		second := m.Status().Settled
		if first.Edges <= 0 || second.Edges <= first.Edges || second.Samples <= first.Samples {
			t.Errorf("settled %+v after a minute, %+v after six", first, second)
		}
		cancel()
		<-done
	})
}

// The window counts time, not samples: it empties while the target is idle.
func TestWindowOfAnIdleTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const samples = 500
		s := newSessionOf(ccmap.Options{Seed: 1, Window: time.Minute}, func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range samples {
				one := stack(names, "leaf", "root")
				one.Time = monotonic()
				r.Push(one)
			}
			r.Publish()
			time.Sleep(2 * time.Minute)
		})
		whole := s.mustRun(t).Snapshot
		recent, ok := whole.Recent()
		if !ok || whole.Total().Samples != samples {
			t.Fatalf("window %v, %d samples", ok, whole.Total().Samples)
		}
		if got := recent.Total().Samples; got < 65 || got > 70 { // 500/e²
			t.Errorf("%d of %d samples are left after two time constants, want 68", got, samples)
		}
	})
}

// TestUntilKnowsNothingOfTheUnknown: a profile without names does not converge, even if
// all its samples are the same.
func TestUntilKnowsNothingOfTheUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(ctx context.Context, r *queue.Ring, names *ccmap.Names) {
			unknown := ccmap.Frame{Method: names.Intern(ccmap.Method{Name: ccmap.UnknownName}), Offset: ccmap.NoOffset}
			for i := range int64(20_000) {
				if ctx.Err() != nil {
					return
				}
				r.Push(&ccmap.Sample{Frames: []ccmap.Frame{unknown}, Time: i * 1e7, Weight: 1e7, Fresh: ccmap.FreshUnknown, Truncated: true})
				time.Sleep(10 * time.Millisecond)
			}
			<-ctx.Done()
		})
		s.config.Until = Goal{Methods, 90}
		r := s.runFor(t, time.Hour)
		if meta := r.Snapshot.Meta(); r.Reached || meta.Settled != (ccmap.Settled{}) {
			t.Errorf("reached %t, settled %+v", r.Reached, meta.Settled)
		}
	})
}

// BenchmarkConvergence measures the answer to each question: the overlap of two halves,
// and the look for drift.
func BenchmarkConvergence(b *testing.B) {
	for _, nodes := range []int{10_000, 100_000, 1_000_000} {
		m := bushyMap(nodes)
		b.Run(fmt.Sprintf("question=floors/nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				overlapOfHalves(m.Snapshot())
			}
		})
		b.Run(fmt.Sprintf("question=drift/nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				new(phases).look(m.Snapshot())
			}
		})
	}
}

// bushyMap returns a map with a number of nodes. Its stacks have 20 frames of 2,000
// methods, and branch at any depth.
func bushyMap(nodes int) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Seed: 1})
	rng := rand.New(rand.NewPCG(1, 1))
	one := stack(m.Names(), make([]string, 20)...)
	for i := range one.Frames {
		one.Frames[i].Method = m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", i)})
	}
	for m.Len() < nodes {
		changed := rng.IntN(len(one.Frames))
		for i := range changed {
			k := rng.IntN(100)*20 + i
			one.Frames[i].Method = m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", k)})
		}
		m.Fold(one)
	}
	return m
}
