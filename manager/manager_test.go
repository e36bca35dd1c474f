package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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
		"sink":     func(c *Config) { c.Source = &fakeSource{} },
		"names":    func(c *Config) { c.Map = ccmap.New(ccmap.Options{}) },
		"tunable":  func(c *Config) { c.Source, c.Tuner = untunable{c.Source}, &fakeTuner{} },
		"listener": func(c *Config) { c.Hot.Method.Time = time.Second },
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

// TestRunKeepsWhatTheSourceKnows: why time is missing, and what files of the target lack. A session that follows
// another one says that of its own.
func TestRunKeepsWhatTheSourceKnows(t *testing.T) {
	t.Parallel()
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) { r.Push(stack(names, "leaf")) })
	s.config.Map.Meta().Comments = []string{"own", ccmap.CommentUnread + "/old", ccmap.CommentNoFrames + "/old", ccmap.CommentUnaccounted + "old"}
	s.source.stats.Unseen, s.source.stats.Files = "all switches", []string{ccmap.CommentUnread + "/libc.so"}
	want := []string{"own", ccmap.CommentUnread + "/libc.so", ccmap.CommentUnaccounted + "all switches"}
	if diff := cmp.Diff(want, s.mustRun(t).Snapshot.Meta().Comments); diff != "" {
		t.Errorf("comments (-want +got):\n%s", diff)
	}
}

// TestRunKeepsTheWarningOfPhases: it stands beside the source's warning.
func TestRunKeepsTheWarningOfPhases(t *testing.T) {
	t.Parallel()
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) { r.Push(stack(names, "leaf")) })
	s.source.stats.Warning = "one is missing"
	m, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	m.values.phased.joined = 7
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

// TestIntervalOfLater: a source that changes its interval later has the change in the profile when
// it is made, with the reason of the tuner's last wish.
func TestIntervalOfLater(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	s := newSession(nil)
	s.source.slow = true
	wish := 20 * ms
	s.config.Tuner = &fakeTuner{decide: func(tuning.Observation) (tuning.Decision, bool) {
		return tuning.Decision{Interval: wish, Reason: "wish for " + wish.String()}, true
	}}
	m, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	m.beginSession()
	reasons := func() (all []string) {
		for _, c := range s.config.Map.Meta().Interval {
			all = append(all, fmt.Sprintf("%v %s", c.Interval, c.Reason))
		}
		return all
	}
	m.takeTurn()
	wish = 30 * ms
	m.takeTurn()
	if got, want := reasons(), []string{"10ms initial"}; !slices.Equal(got, want) {
		t.Errorf("before the change: %q", got)
	}
	s.source.stats.Interval = 30 * ms
	m.takeTurn()
	m.takeTurn()
	if got, want := reasons(), []string{"10ms initial", "30ms wish for 30ms"}; !slices.Equal(got, want) {
		t.Errorf("after the change: %q, want %q", got, want)
	}
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
		t.Errorf("error %v, want the error of the bad dump", err)
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
			r := s.source.info.Sink.Queue.Ring()
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

// busyManager returns a manager with the options of a session. Push publishes n
// samples of the given depth, whose stacks are in the map already.
func busyManager(tb testing.TB, n, depth int) (m *Manager, push func()) {
	s := newSessionOf(ccmap.Options{Seed: 1, MaxBytes: 64 << 20, Window: 15 * time.Minute}, nil)
	tuner, err := tuning.New(tuning.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	s.config.Tuner = tuner
	if m, err = New(s.config); err != nil {
		tb.Fatal(err)
	}
	m.beginSession()
	ring := s.source.info.Sink.Queue.Ring()
	samples := []*ccmap.Sample{pyramid(s.config.Map.Names(), depth, "a"), pyramid(s.config.Map.Names(), depth, "b")}
	push = func() {
		for i := range n {
			ring.Push(samples[i%2])
		}
		ring.Publish()
	}
	push()
	m.takeTurn()
	return m, push
}

// pyramid returns a sample of a stack of the given depth, with its own leaf.
func pyramid(names *ccmap.Names, depth int, leaf string) *ccmap.Sample {
	methods := []string{leaf}
	for i := 1; i < depth; i++ {
		methods = append(methods, fmt.Sprint("f", i))
	}
	return stack(names, methods...)
}

func TestTurnDoesNotAllocate(t *testing.T) {
	m, push := busyManager(t, 10, 40)
	m.convergence.earliest = time.Now().Add(time.Hour) // a question takes a snapshot
	if n := testing.AllocsPerRun(100, func() { push(); m.takeTurn() }); n > 0 {
		t.Errorf("a turn allocates %v times", n)
	}
}

// BenchmarkTurn measures a whole turn of a small batch: draining, folding, and the work
// of each turn.
func BenchmarkTurn(b *testing.B) {
	for _, samples := range []int{1, 10, 100} {
		for _, depth := range []int{10, 40} {
			b.Run(fmt.Sprintf("samples=%d/depth=%d", samples, depth), func(b *testing.B) {
				m, push := busyManager(b, samples, depth)
				for b.Loop() {
					push()
					m.takeTurn()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*samples), "ns/sample")
			})
		}
	}
}

func TestSnapshotIsPublishedOnDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			r.Push(stack(names, "leaf"))
			r.Publish()
			time.Sleep(10 * time.Second)
		})
		m := s.mustStart(t)
		var done sync.WaitGroup
		done.Go(func() { m.Run(t.Context()) })
		defer done.Wait()

		time.Sleep(5 * time.Second)
		first := m.Snapshot()
		if n := first.Total().Samples; n != 0 {
			t.Errorf("%d samples were published without a reader", n)
		}
		time.Sleep(time.Second)
		second := m.Snapshot()
		if n := second.Total().Samples; n != 1 {
			t.Errorf("%d samples a second after a reader had asked, want 1", n)
		}
		time.Sleep(time.Second)
		if m.Snapshot() != second {
			t.Error("an unchanged map was published again")
		}
	})
}

func TestSnapshotsAreRateLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(pushForASecond)
		m := s.mustStart(t)
		var done sync.WaitGroup
		done.Go(func() { m.Run(t.Context()) })
		defer done.Wait()

		seen := make(map[*ccmap.Snapshot]bool)
		for range 900 {
			seen[m.Snapshot()] = true
			time.Sleep(time.Millisecond)
		}
		if n := len(seen); n < 5 || n > 11 {
			t.Errorf("%d snapshots in 900 ms, want about 9", n)
		}
	})
}

func TestStatusFollowsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			one := stack(names, "leaf", "root")
			one.Top = ccmap.TopRepeated
			r.Push(one)
			r.Push(&ccmap.Sample{})
			r.Push(caughtCall(stack(names, "leaf", "root")))
			r.Publish()
			time.Sleep(10 * time.Second)
		})
		s.source.stats.Threads = 3
		s.source.stats.Loss.Source = 9
		m := s.mustStart(t)
		var done sync.WaitGroup
		done.Go(func() { m.Run(t.Context()) })
		defer done.Wait()

		time.Sleep(5 * time.Second)
		got := m.Status()
		want := Status{
			Elapsed: got.Elapsed, Samples: 2, Caught: 1, Sampled: time.Millisecond, Known: 1, Repeated: 1,
			Interval: 10 * time.Millisecond, Loss: ccmap.Loss{Source: 9, Corrupt: 1}, Threads: 3,
			Nodes: s.nodesOf("leaf", "root"), Bytes: got.Bytes,
		}
		if got != want || got.Elapsed < 4*time.Second || got.Bytes <= 0 {
			t.Errorf("status %+v\nwant   %+v", got, want)
		}
	})
}

// nodesOf returns the number of nodes of a map with one stack.
func (s *session) nodesOf(methods ...string) int {
	m := ccmap.New(ccmap.Options{})
	m.Fold(stack(m.Names(), methods...))
	return m.Len()
}

// TestHammer runs producers, readers of snapshots and readers of the status at once.
// Every snapshot must be valid, and no snapshot may have fewer samples than the one
// before.
func TestHammer(t *testing.T) {
	t.Parallel()
	hammer(t, ccmap.Options{Seed: 1})
}

// TestHammerWithinBudget is TestHammer with a window and a map that is pruned often.
func TestHammerWithinBudget(t *testing.T) {
	t.Parallel()
	r := hammer(t, ccmap.Options{Seed: 1, MaxBytes: 64 << 10, Window: time.Second})
	if r.Snapshot.Meta().Pruned.Times == 0 {
		t.Error("the map was never pruned")
	}
	var self int64
	for m := range r.Snapshot.Methods() {
		self += m.Self().Samples
	}
	if total := r.Snapshot.Total().Samples; self != total {
		t.Errorf("methods have %d of %d samples", self, total)
	}
}

func hammer(t *testing.T, o ccmap.Options) Report {
	t.Helper()
	const producers, perProducer = 4, 5_000
	s := newSessionOf(o, nil)
	s.config.PublishEvery = time.Microsecond
	s.source.run = func(context.Context) (sampler.Ending, error) {
		var rings [producers]*queue.Ring // each a buffer of its own, even if a producer ends before another begins
		for i := range rings {
			rings[i] = s.source.info.Sink.Queue.Ring()
		}
		var all sync.WaitGroup
		for i, ring := range rings {
			all.Go(func() { produce(ring, s.config.Map.Names(), i, perProducer) })
		}
		all.Wait()
		return sampler.Ending{Reason: "done"}, nil
	}
	m := s.mustStart(t)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			if err := readUntil(ctx, m); err != nil {
				t.Error(err)
			}
		})
	}
	r, err := m.Run(ctx)
	cancel()
	readers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	got := r.Queue.Delivered + r.Queue.Dropped
	if got != producers*perProducer || uint64(r.Snapshot.Total().Samples)+r.Values.Caught != r.Queue.Delivered {
		t.Errorf("%+v, %d samples and %d caught calls in the map; pushed %d",
			r.Queue, r.Snapshot.Total().Samples, r.Values.Caught, producers*perProducer)
	}
	if err := r.Snapshot.CheckValid(); err != nil {
		t.Error(err)
	}
	return r
}

// produce pushes samples of stacks that share a part and have many leaves. One in ten
// is a caught call.
func produce(r *queue.Ring, names *ccmap.Names, id, n int) {
	defer r.Close()
	methods := []string{"a", "b", "c", "d", "e", "f"}
	for i := range n {
		one := stack(names, methods[i%3], methods[3+i%2], methods[(id+i)%6], "root")
		one.Frames[0].Offset = uint32(i)
		one.Time = monotonic()
		one.Thread = uint64(id)
		if i%10 == 0 {
			caughtCall(one)
		}
		r.Push(one)
	}
}

// readUntil reads until the context is done, and at least twice.
func readUntil(ctx context.Context, m *Manager) error {
	var last int64
	for reads := 0; reads < 2 || ctx.Err() == nil; reads++ {
		s := m.Snapshot()
		if err := s.CheckValid(); err != nil {
			return err
		}
		if recent, ok := s.Recent(); ok && recent.Total().Samples > s.Total().Samples {
			return errors.New("the window has more samples than the whole run")
		}
		n := s.Total().Samples
		if n < last {
			return errors.New("a newer snapshot has fewer samples")
		}
		last = n
		m.Status()
	}
	return nil
}

// The tuner learns what a sample costs, and the switches between two readings of them.
func TestOverheadFollows(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	stats := func(samples uint64, sampled, switched, of time.Duration) sampler.Stats {
		return sampler.Stats{
			Counts:   sampler.Counts{sampler.Samples: samples},
			Overhead: sampler.Overhead{Samples: sampled, Switches: switched, Of: of},
		}
	}
	var o overhead
	for i, step := range []struct {
		stats  sampler.Stats
		sample time.Duration
		fixed  float64
	}{
		{stats(10, 0, 0, 0), 0, 0}, // not known
		{stats(20, 2*ms, 0, 100*ms), ms / 10, 0},
		{stats(20, 2*ms, 10*ms, 200*ms), ms / 10, 0.05},
		{stats(30, 3*ms, 10*ms, 300*ms), ms / 10, 0.05}, // no reading
		{stats(40, 5*ms, 12*ms, 400*ms), ms / 5, 0.01},
	} {
		if o.follow(step.stats); o.sample != step.sample || o.fixed != step.fixed {
			t.Errorf("step %d: %v a sample, %v at switches; want %v, %v", i, o.sample, o.fixed, step.sample, step.fixed)
		}
	}
}

// TestBusyHostKeepsTheRate replays nats-server at load 30: at 100 Hz and 28 µs an interrupt it has a
// tenth of a CPU, and other programs have the rest of two. What these lose is the host's budget, so the
// interval stays, and the report says what the target's own code has paid.
func TestBusyHostKeepsTheRate(t *testing.T) {
	t.Parallel()
	tuner, err := tuning.New(tuning.Config{Off: true})
	if err != nil {
		t.Fatal(err)
	}
	const seconds, samples, others, cost = 60, 10, 190, 28 * time.Microsecond
	var o overhead
	var s sampler.Stats
	for at := time.Second; at <= seconds*time.Second; at += time.Second {
		s.Counts[sampler.Samples] += samples
		s.Overhead.Samples += samples * cost
		s.Overhead.Interrupts += others * cost
		s.Overhead.Of += samples * 10 * time.Millisecond
		o.follow(s)
		d, changed := tuner.Observe(tuning.Observation{At: at, Samples: samples, TargetCPU: samples * 10 * time.Millisecond, SampleCost: o.sample, Fixed: o.fixed})
		if changed {
			t.Fatalf("after %v: %s", at, d.Reason)
		}
	}
	if got, want := s.Overhead.String(), "overhead 0.3 % of the target: 0.3 samples"; got != want {
		t.Errorf("report %q, want %q", got, want)
	}
}

// TestHeld: the profile and the status name the budget that keeps a session from more samples, as long
// as one does.
func TestHeld(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		by       tuning.Budget
		wanted   time.Duration
		interval time.Duration
		overhead sampler.Overhead
		want     string
	}{
		"tuner":   {tuning.NoBudget, 53 * ms, 53 * ms, sampler.Overhead{Least: 3 * ms}, ""},
		"target":  {tuning.TargetOverhead, 10 * ms, 53400 * time.Microsecond, sampler.Overhead{Least: 3 * ms}, "--target holds the interval at 53.4ms, where 10ms was wanted: a larger budget gives more samples."},
		"own":     {tuning.DaemonCPU, 10 * ms, 20 * ms, sampler.Overhead{}, "tuning.Config.MaxDaemonCPU holds the interval at 20ms, where 10ms was wanted: a larger budget gives more samples."},
		"host":    {tuning.NoBudget, ms, 3 * ms, sampler.Overhead{Least: 3 * ms}, "--host holds the interval at 3ms, where 1ms was wanted: a larger budget gives more samples."},
		"both":    {tuning.TargetOverhead, ms, 3 * ms, sampler.Overhead{Least: 3 * ms}, "--host holds the interval at 3ms, where 1ms was wanted: a larger budget gives more samples."},
		"engine":  {tuning.NoBudget, ms / 10, ms, sampler.Overhead{Least: ms / 2}, ""},
		"windows": {tuning.TargetOverhead, 10 * ms, 40 * ms, sampler.Overhead{Sampled: 0.123}, "--target permits sampling in 12.3 % of the time: a larger budget gives more samples."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(func(context.Context, *queue.Ring, *ccmap.Names) {})
			s.source.stats.Interval, s.source.stats.Overhead = test.interval, test.overhead
			s.config.Tuner = &fakeTuner{by: test.by, wanted: test.wanted, decide: func(tuning.Observation) (tuning.Decision, bool) { return tuning.Decision{}, false }}
			s.config.Budgets = BudgetNames{Target: "--target", Host: "--host"}
			m := s.mustStart(t)
			r, err := m.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, c := range r.Snapshot.Meta().Comments {
				if sentence, ok := strings.CutPrefix(c, ccmap.CommentHeld); ok {
					said = sentence
				}
			}
			if said != test.want || !strings.HasPrefix(test.want, m.Status().Held) || (m.Status().Held == "") != (test.want == "") {
				t.Errorf("said %q, status %q, want %q", said, m.Status().Held, test.want)
			}
		})
	}
}

// TestIdleSessionsMeet: sessions without samples take their turns at the same moments, whenever they began.
func TestIdleSessionsMeet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		turns := make(map[int64]int) // by their moments
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		const sessions, wanted = 3, 10
		for range sessions {
			s := newSession(func(ctx context.Context, _ *queue.Ring, _ *ccmap.Names) { <-ctx.Done() })
			s.config.Tuner = &fakeTuner{decide: func(tuning.Observation) (tuning.Decision, bool) {
				mu.Lock()
				defer mu.Unlock()
				turns[time.Now().UnixNano()]++
				return tuning.Decision{}, false
			}}
			m, err := New(s.config)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() { m.Run(ctx) })
			time.Sleep(tick / sessions)
		}
		time.Sleep(wanted*tick - tick/2)
		stop()
		all.Wait()
		if len(turns) != wanted+1 { // and the last ones
			t.Errorf("turns at %d moments: %v", len(turns), turns)
		}
		for at, n := range turns {
			if n != sessions {
				t.Errorf("%d turns at %v", n, time.Duration(at)%time.Second)
			}
		}
	})
}
