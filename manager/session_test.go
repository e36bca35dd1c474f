package manager

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// newHosted returns a source in this process, which pushes one sample and then waits until
// the session stops.
func newHosted() *fakeSource {
	s := &fakeSource{
		stats: sampler.Stats{Interval: 10 * time.Millisecond},
		info: sampler.Info{
			Target: ccmap.Target{PID: os.Getpid()}, Engine: "managed", Embedded: true,
			Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()},
		},
	}
	s.run = func(ctx context.Context) (sampler.Ending, error) {
		r := s.info.Sink.Queue.Ring()
		defer r.Close()
		r.Push(stack(s.info.Sink.Names, "leaf", "root"))
		r.Publish()
		<-ctx.Done()
		return sampler.Ending{Reason: "stopped"}, nil
	}
	return s
}

func mustStart(t *testing.T, ctx context.Context, c Config) *Session {
	t.Helper()
	s, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStartNeedsASourceAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustStart(t, t.Context(), Config{Source: newHosted()})
		for s.Snapshot().Total().Samples == 0 {
			time.Sleep(tick) // of the test's clock
		}
		if got := s.Status().Samples; got != 1 {
			t.Errorf("status has %d samples, want 1", got)
		}
		r, err := s.Stop()
		if err != nil || r.Ending.Reason != "stopped: as asked for" {
			t.Errorf("ending %+v, %v", r.Ending, err)
		}
		meta := s.Snapshot().Meta()
		if meta.Target.PID != os.Getpid() || meta.Engine != "managed" || s.Snapshot() != r.Snapshot {
			t.Errorf("final metadata %+v", meta)
		}
		again, err := s.Stop()
		if err != nil || again.Snapshot != r.Snapshot {
			t.Errorf("stopped twice: %+v, %v", again, err)
		}
	})
}

// A session in this process tunes as the command does, unless its interval is fixed:
// samples that always find the same activation come less often.
func TestStartTunes(t *testing.T) {
	t.Parallel()
	for _, fixed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			source := newHosted()
			source.run = func(ctx context.Context) (sampler.Ending, error) {
				r := source.info.Sink.Queue.Ring()
				defer r.Close()
				s := stack(source.info.Sink.Names, "leaf", "root")
				s.Top = ccmap.TopRepeated
				for range 2000 {
					r.Push(s)
					r.Publish()
					time.Sleep(10 * time.Millisecond)
				}
				return sampler.Ending{Reason: "stopped"}, nil
			}
			session := mustStart(t, t.Context(), Config{Source: source, FixedInterval: fixed})
			<-session.Done()
			if longer := source.Stats().Interval > 10*time.Millisecond; longer == fixed {
				t.Errorf("fixed %t, and the interval is %v", fixed, source.Stats().Interval)
			}
		})
	}
}

func TestStartTunesNoSourceWithoutInterval(t *testing.T) {
	t.Parallel()
	for interval, unit := range map[time.Duration]ccmap.Unit{0: {}, time.Millisecond: ccmap.Instructions} {
		synctest.Test(t, func(t *testing.T) {
			source := newHosted()
			source.stats.Interval, source.info.Unit = interval, unit
			session := mustStart(t, t.Context(), Config{Source: source})
			if session.manager.config.Tuner != nil {
				t.Errorf("an interval of %v in %v is tuned", interval, unit)
			}
			if _, err := session.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStartedSessionEndsByItself(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		run  func(context.Context) (sampler.Ending, error)
		want string
		err  error
	}{
		"context": {
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Minute)
			},
			want: "stopped: context deadline exceeded",
		},
		"source": {
			run: func(context.Context) (sampler.Ending, error) {
				return sampler.Ending{Reason: "over", Exited: true}, nil
			},
			want: "over",
		},
		"error": {
			run: func(context.Context) (sampler.Ending, error) { return sampler.Ending{}, broken },
			err: broken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := newHosted()
				if test.run != nil {
					source.run = test.run
				}
				ctx := t.Context()
				if test.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = test.ctx(ctx)
					defer cancel()
				}
				s := mustStart(t, ctx, Config{Source: source})
				<-s.Done()
				r, err := s.Stop()
				if r.Ending.Reason != test.want || !errors.Is(err, test.err) {
					t.Errorf("ended %q, %v; want %q, %v", r.Ending.Reason, err, test.want, test.err)
				}
			})
		})
	}
}

// TestStartKeepsWhatIsGiven: Start uses a given map with the sink's names, and refuses
// others.
func TestStartKeepsWhatIsGiven(t *testing.T) {
	t.Parallel()
	source := newHosted()
	m := ccmap.New(ccmap.Options{Names: source.info.Sink.Names})
	m.Meta().Engine = "mine"
	s := mustStart(t, t.Context(), Config{Source: source, Map: m})
	r, err := s.Stop()
	if err != nil || r.Snapshot.Meta().Engine != "mine" {
		t.Errorf("metadata %+v, %v", r.Snapshot.Meta(), err)
	}
	if diff := cmp.Diff(ccmap.Target{}, r.Snapshot.Meta().Target); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
	for name, c := range map[string]Config{
		"map":    {Source: source, Map: ccmap.New(ccmap.Options{})},
		"source": {},
		"sink":   {Source: &fakeSource{}},
	} {
		if _, err := Start(t.Context(), c); err == nil {
			t.Errorf("no error with a wrong %s", name)
		}
	}
}

// TestStartTellsTheTunerNothingOfTheTargetsOwnTime: the CPU time of this process does
// not count as the daemon's.
func TestStartTellsTheTunerNothingOfTheTargetsOwnTime(t *testing.T) {
	t.Parallel()
	observed := make(chan time.Duration, 1)
	s := mustStart(t, t.Context(), Config{Source: newHosted(), Tuner: &fakeTuner{
		decide: func(o tuning.Observation) (tuning.Decision, bool) {
			select {
			case observed <- o.DaemonCPU:
			default:
			}
			return tuning.Decision{}, false
		},
	}})
	if got := <-observed; got != 0 {
		t.Errorf("the tuner observes %v", got)
	}
	if r, err := s.Stop(); err != nil || r.CPU != 0 {
		t.Errorf("report has %v, %v", r.CPU, err)
	}
}
