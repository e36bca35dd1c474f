package manager

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (s *session) mustStart(t *testing.T) *Manager {
	t.Helper()
	m, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *session) mustRun(t *testing.T) Report {
	t.Helper()
	r, err := s.mustStart(t).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNewRequiresItsParts(t *testing.T) {
	t.Parallel()
	full := newSession(nil).config
	for name, spoil := range map[string]func(*Config){
		"source":   func(c *Config) { c.Source = nil },
		"queue":    func(c *Config) { c.Queue = nil },
		"map":      func(c *Config) { c.Map = nil },
		"listener": func(c *Config) { c.Hot.Method = time.Second },
	} {
		c := full
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("no error without %s", name)
		}
	}
}

func TestRunFoldsAllThatWasPushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const samples = 1003 // the last batch is not full
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for i := range samples {
				one := stack(names, "leaf", "root")
				one.Top = []ccmap.Repetition{ccmap.TopUnknown, ccmap.TopNew, ccmap.TopRepeated}[i%3]
				r.Push(one)
				time.Sleep(time.Millisecond)
			}
		})
		r := s.mustRun(t)
		meta := r.Snapshot.Meta()
		if got := r.Snapshot.Total(); got.Samples != samples || got.Time != samples*int64(time.Millisecond) {
			t.Errorf("total %+v of %d samples", got, samples)
		}
		if meta.Known != 2*samples/3 || meta.Repeated != samples/3 {
			t.Errorf("known %d, repeated %d of %d samples", meta.Known, meta.Repeated, samples)
		}
		if meta.Duration < samples*time.Millisecond || meta.Ended != "stopped" || meta.Start.IsZero() {
			t.Errorf("metadata %+v", meta)
		}
		if r.Queue.Pushed != samples || r.Queue.Delivered != samples {
			t.Errorf("queue %+v of %d samples", r.Queue, samples)
		}
	})
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(ctx context.Context, r *queue.Ring, names *ccmap.Names) {
			r.Push(stack(names, "leaf"))
			<-ctx.Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r, err := s.mustStart(t).Run(ctx)
		if err != nil || r.Snapshot.Total().Samples != 1 {
			t.Errorf("%d samples, %v; want 1", r.Snapshot.Total().Samples, err)
		}
		if got, want := r.Snapshot.Meta().Ended, "stopped: context deadline exceeded"; got != want {
			t.Errorf("ended: %q, want %q", got, want)
		}
		if got := r.Snapshot.Meta().Duration; got.Truncate(time.Second) != time.Hour {
			t.Errorf("duration %v, want 1h", got)
		}
	})
}

func TestRunKeepsLosses(t *testing.T) {
	t.Parallel()
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
		r.Push(&ccmap.Sample{}) // corrupt: the map counts it
		r.Push(&ccmap.Sample{Frames: make([]ccmap.Frame, 1<<16)})
		r.Push(stack(names, "leaf"))
	})
	s.source.stats.Loss = ccmap.Loss{Source: 5, Queue: 7, Throttled: 2, Corrupt: 3, Orphaned: 4, Clock: time.Second, ClockTick: 2, Unaccounted: -1}
	r := s.mustRun(t)
	want := ccmap.Loss{Source: 5, Queue: 7 + 1, Throttled: 2, Corrupt: 3 + 1, Orphaned: 4, Clock: time.Second, ClockTick: 2, Unaccounted: -1}
	if diff := cmp.Diff(want, r.Snapshot.Meta().Loss); diff != "" {
		t.Errorf("loss (-want +got):\n%s", diff)
	}
}

func TestRunKeepsTheWarningOfTheSource(t *testing.T) {
	t.Parallel()
	for warning, want := range map[string][]string{"": {"own"}, "one is missing": {"own", "warning: one is missing"}} {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) { r.Push(stack(names, "leaf")) })
		s.config.Map.Meta().Comments = []string{"own"}
		s.source.stats.Warning = warning
		if diff := cmp.Diff(want, s.mustRun(t).Snapshot.Meta().Comments); diff != "" {
			t.Errorf("comments (-want +got):\n%s", diff)
		}
	}
}

// TestRunKeepsTheWarningOfPhases beside the source's.
func TestRunKeepsTheWarningOfPhases(t *testing.T) {
	t.Parallel()
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) { r.Push(stack(names, "leaf")) })
	s.source.stats.Warning = "one is missing"
	m, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	m.values.filed.joined = 7
	m.keepLoss()
	comments := m.config.Map.Meta().Comments
	if len(comments) != 2 || comments[0] != "warning: one is missing" || !strings.HasPrefix(comments[1], "warning: caught calls of the phases 1 to 7 ") {
		t.Errorf("comments %q", comments)
	}
}

// lengthen asks for 20 ms once 30 samples have been seen.
func lengthen(t *fakeTuner) {
	t.decide = func(tuning.Observation) (tuning.Decision, bool) {
		if t.interval == 20*time.Millisecond || t.samples.Load() < 30 {
			return tuning.Decision{}, false
		}
		t.interval = 20 * time.Millisecond
		return tuning.Decision{Interval: t.interval, Reason: "for the test"}, true
	}
}

func pushForASecond(_ context.Context, r *queue.Ring, names *ccmap.Names) {
	for range 100 {
		r.Push(stack(names, "leaf", "root"))
		time.Sleep(10 * time.Millisecond)
	}
}

func TestTuningIsAppliedLoggedAndKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tuner := &fakeTuner{interval: 10 * time.Millisecond}
		lengthen(tuner)
		s := newSession(pushForASecond)
		s.config.Tuner = tuner
		s.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := s.mustRun(t)
		got := r.Snapshot.Meta().Interval
		if len(got) != 2 || got[0].Interval != 10*time.Millisecond || got[1].Interval != 20*time.Millisecond {
			t.Fatalf("interval history %+v", got)
		}
		if got[1].Reason != "for the test" || got[1].At < 290*time.Millisecond || got[1].At > time.Second {
			t.Errorf("change %+v", got[1])
		}
		if is := s.source.Stats().Interval; is != 20*time.Millisecond {
			t.Errorf("source samples every %v", is)
		}
		if !strings.Contains(log.String(), "for the test") {
			t.Errorf("change is not in the log:\n%s", &log)
		}
		if n := tuner.samples.Load(); n != 100 {
			t.Errorf("tuner saw %d samples, want 100", n)
		}
	})
}

func TestRefusedIntervalIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tuner := &fakeTuner{interval: 10 * time.Millisecond}
		lengthen(tuner)
		s := newSession(pushForASecond)
		s.config.Tuner = tuner
		s.source.setInterval = errors.New("refused")
		if got := s.mustRun(t).Snapshot.Meta().Interval; len(got) != 1 {
			t.Errorf("interval history %+v, want the initial one alone", got)
		}
	})
}

func TestTunerHearsOfAnIdleTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last time.Duration
		s := newSession(func(context.Context, *queue.Ring, *ccmap.Names) { time.Sleep(time.Minute) })
		s.config.Tuner = &fakeTuner{decide: func(o tuning.Observation) (tuning.Decision, bool) {
			last = o.At
			return tuning.Decision{}, false
		}}
		s.mustRun(t)
		if last < 59*time.Second {
			t.Errorf("last observation at %v of 1m", last)
		}
	})
}

func TestDumps(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	var wrote int64
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) { r.Push(stack(names, "leaf")) })
	s.config.Dumps = []Dump{
		{"bad", func(*ccmap.Snapshot) error { return full }},
		{"good", func(s *ccmap.Snapshot) error { wrote = s.Total().Samples; return nil }},
	}
	r, err := s.mustStart(t).Run(t.Context())
	if !errors.Is(err, full) {
		t.Errorf("error %v, want that of the bad dump", err)
	}
	if diff := cmp.Diff([]string{"good"}, r.Written); diff != "" || wrote != 1 {
		t.Errorf("wrote %d samples to (-want +got):\n%s", wrote, diff)
	}
}

func TestDumpsOfABrokenSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("ring unmapped")
	for _, samples := range []int{0, 1} {
		s := newSession(nil)
		s.source.run = func(context.Context) (sampler.Ending, error) {
			r := s.config.Queue.Ring()
			defer r.Close()
			for range samples {
				r.Push(stack(s.config.Map.Names(), "leaf"))
			}
			return sampler.Ending{}, broken
		}
		s.config.Dumps = []Dump{{"file", func(*ccmap.Snapshot) error { return nil }}}
		r, err := s.mustStart(t).Run(t.Context())
		if !errors.Is(err, broken) || len(r.Written) != samples {
			t.Errorf("%d samples: wrote %q, error %v", samples, r.Written, err)
		}
	}
}
