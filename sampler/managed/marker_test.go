package managed_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/tuning"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testrun.Guard(m)) }

// start runs the marker, and returns a function that ends it.
func start(t *testing.T, p *managed.Profiler) (stop func() sampler.Ending) {
	ctx, cancel := context.WithCancel(context.Background())
	endings := make(chan sampler.Ending, 1)
	go func() {
		ending, err := p.Run(ctx)
		if err != nil {
			t.Errorf("run: %v", err)
		}
		endings <- ending
	}()
	return sync.OnceValue(func() sampler.Ending {
		cancel()
		return <-endings
	})
}

// sampleOnce lets a thread reach safe points until it was sampled once more.
func sampleOnce(p *managed.Profiler, g *modelThread) {
	for before := p.Stats().Counts[sampler.Samples]; p.Stats().Counts[sampler.Samples] == before; runtime.Gosched() {
		g.Safepoint(g)
	}
}

// Every sample is published when Run returns, also samples of a sleeping thread. Then
// threads go on without samples.
func TestEnd(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: time.Millisecond})
	stop := start(t, p)
	defer stop()
	g, idle := attachDeep(p, 3), attachDeep(p, 3)
	for range 5 {
		sampleOnce(p, g)
	}
	sampleOnce(p, idle)
	if e := stop(); e != (sampler.Ending{Reason: "stopped"}) {
		t.Errorf("ending: %+v", e)
	}
	if n := len(drain(p)); n != 6 {
		t.Errorf("%d samples of 6", n)
	}
	p.Mark(time.Millisecond)
	g.Safepoint(g)
	late := attachDeep(p, 1)
	late.Sample(late)
	late.Called(0, late)
	if s := p.Stats(); s.Counts[sampler.Samples] != 6 || s.Threads != 3 || p.Sink().Queue.Stats().Dropped != 0 {
		t.Errorf("after the end: %+v", s)
	}
	for _, g := range []*modelThread{g, idle, late} {
		g.Detach()
	}
	if n := p.Stats().Threads; n != 0 {
		t.Errorf("%d threads left", n)
	}
}

// A VM that ends gives the reason.
func TestFinish(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{})
	p.Finish("guest exited with code 3")
	p.Finish("again")
	e, err := p.Run(t.Context())
	if want := (sampler.Ending{Reason: "guest exited with code 3", Exited: true}); e != want || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

// Pushed, unpublished samples of a thread become visible while it sleeps.
func TestSweepPublishes(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: time.Millisecond})
	defer start(t, p)()
	g := attachDeep(p, 1)
	sampleOnce(p, g)
	<-p.Sink().Queue.Ready()
	if n := len(drain(p)); n != 1 {
		t.Errorf("%d samples", n)
	}
	runtime.KeepAlive(g) // or the garbage collector would have published
}

// A running thread that reaches no safe point is counted, until it parks.
func TestUnsafe(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a second")
	}
	p := managed.New(managed.Options{Interval: 20 * time.Millisecond})
	defer start(t, p)()
	g, parked := attachDeep(p, 1), attachDeep(p, 1)
	parked.Park()
	for p.Stats().Counts[sampler.Unsafe] != 1 {
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	g.Park()
	for p.Stats().Counts[sampler.Unsafe] != 0 {
		time.Sleep(time.Millisecond)
	}
}

// hook counts its calls.
type hook struct {
	marks, calls atomic.Int64
	onMark       func()
}

func (h *hook) Mark() {
	h.marks.Add(1)
	if h.onMark != nil {
		h.onMark()
	}
}
func (h *hook) WantCalls() { h.calls.Add(1) }

func TestHooks(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	var counted, broken, last hook
	g := p.Attach(managed.ThreadOptions{Hook: &counted})
	switchedOff := p.Attach(managed.ThreadOptions{Hook: &broken})
	leaving := p.Attach(managed.ThreadOptions{Hook: &last})
	broken.onMark = func() { panic("broken") }
	last.onMark = leaving.Detach
	for range 3 {
		p.Mark(time.Minute)
	}
	runtime.KeepAlive(g)
	runtime.KeepAlive(switchedOff)
	if counted.marks.Load() != 3 || broken.marks.Load() != 1 || last.marks.Load() != 1 {
		t.Errorf("marks: %d, %d, %d", counted.marks.Load(), broken.marks.Load(), last.marks.Load())
	}
	if counted.calls.Load() != 1 { // the burst has not ended
		t.Errorf("told of %d bursts", counted.calls.Load())
	}
	if s := p.Stats(); s.Threads != 1 || s.Counts[sampler.Panicked] != 1 || s.Counts[sampler.Bursts] != 1 || s.Counts[sampler.Marks] != 3 {
		t.Errorf("stats: %+v", s)
	}
}

// A hook that holds its thread does not keep it, or itself, from being collected.
func TestHookIsCollected(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	func() {
		h := new(hook)
		g := p.Attach(managed.ThreadOptions{Hook: h})
		h.onMark = func() { g.ID() }
		p.Mark(time.Millisecond)
	}()
	for p.Stats().Counts[sampler.Abandoned] == 0 {
		runtime.GC()
	}
	p.Mark(time.Millisecond)
}

// The tuner's interval reaches all threads at once. Here all samples repeat, so it
// becomes longer.
func TestTuning(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: time.Millisecond})
	tuner, err := tuning.New(tuning.Config{Initial: time.Millisecond, Window: 30})
	if err != nil {
		t.Fatal(err)
	}
	session, err := manager.Start(t.Context(), manager.Config{Source: p, Tuner: tuner})
	if err != nil {
		t.Fatal(err)
	}
	g := attachDeep(p, 3)
	began := time.Now()
	for p.Stats().Interval == time.Millisecond {
		sampleOnce(p, g)
	}
	for p.Stats().LastChange == 0 {
		runtime.Gosched()
	}
	if s := p.Stats(); s.Interval < time.Millisecond || s.LastChange > time.Since(began) {
		t.Errorf("interval %v after %v", s.Interval, s.LastChange)
	}
	r, err := session.Stop()
	if err != nil || r.Snapshot.Total().Samples != int64(r.Source.Counts[sampler.Samples]) {
		t.Errorf("%d samples of %d, %v", r.Snapshot.Total().Samples, r.Source.Counts[sampler.Samples], err)
	}
}

// A change of the interval does not wait for the end of the last one.
func TestSetInterval(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: managed.MaxInterval})
	defer start(t, p)()
	g := attachDeep(p, 1)
	if err := p.SetInterval(0); err != nil || p.Stats().Interval != managed.MinInterval {
		t.Errorf("%v, %v", p.Stats().Interval, err)
	}
	sampleOnce(p, g)
	if p.Stats().LastChange <= 0 {
		t.Error("no change was measured")
	}
	if err := newManual(0, managed.Burst{}).SetInterval(time.Second); !errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("without a marker: %v", err)
	}
}

// Threads come and go, sample and sleep, are parked, detached by others and forgotten,
// while the marker marks as fast as it can. The totals are right.
func TestHammer(t *testing.T) {
	t.Parallel()
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	sink := sampler.Sink{Queue: queue.New(queue.Options{RingWords: 256})}
	p := managed.New(managed.Options{Sink: sink, Interval: managed.MinInterval, Burst: managed.Burst{Samples: 3}, HitBudget: 1e6})
	m := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	for range modelMethods {
		p.Sink().Names.Intern(ccmap.Method{Name: string(rune('a' + p.Sink().Names.Len()))})
	}
	stop := start(t, p)
	var threads sync.WaitGroup
	var lives atomic.Int64
	for seed := range 8 {
		threads.Go(func() {
			for round := 0; round < rounds || p.Stats().Counts[sampler.Samples] == 0; round++ {
				hammer(p, seed+round)
				lives.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		threads.Wait()
		stop()
		close(done)
	}()
	hits := uint64(0)
	for ended := false; !ended; {
		select {
		case <-sink.Queue.Ready():
		case <-done:
			ended = true
		}
		sink.Queue.Drain(func(s *ccmap.Sample) {
			if s.Hit {
				hits++
				return
			}
			m.Fold(s)
		})
	}
	s := p.Stats()
	if got := uint64(m.Snapshot().Total().Samples); got != s.Counts[sampler.Samples] || hits != s.Counts[sampler.Caught] || m.Meta().Loss.Orphaned > 0 {
		t.Errorf("%d samples and %d calls folded, %d orphaned; stats: %+v", got, hits, m.Meta().Loss.Orphaned, s)
	}
	if got, calls := m.Snapshot().Total().Activations, 40*lives.Load(); got > calls {
		t.Errorf("%d activations of %d calls", got, calls)
	}
}

// hammer is the life of one thread, of 40 calls.
func hammer(p *managed.Profiler, round int) {
	g := &modelThread{Thread: p.Attach(managed.ThreadOptions{})}
	for i := range 40 {
		g.call(modelMethod(i))
		for range 50 {
			g.Safepoint(g)
			g.step()
		}
		if g.CallsWanted() {
			g.Called(0, g)
		}
		switch (i + round) % 10 {
		case 0:
			g.Park()
			runtime.Gosched()
			g.Unpark()
		case 3, 6:
			g.ret()
			g.ret()
		}
	}
	switch round % 4 {
	case 0: // forgotten
	case 1: // by another goroutine, in the middle of its work
		detached := make(chan struct{})
		go func() { g.Detach(); close(detached) }()
		for range 100 {
			g.Safepoint(g)
		}
		<-detached
	default:
		g.Detach()
	}
}
