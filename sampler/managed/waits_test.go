package managed_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// awaitMarks waits until a profiler has marked its threads some times more.
func awaitMarks(p *managed.Profiler, n uint64) {
	for until := p.Stats().Counts[sampler.Marks] + n; p.Stats().Counts[sampler.Marks] < until; {
		runtime.Gosched()
	}
}

// TestBlocked: a wait in which marks come is one sample, of the reason on the thread's stack, that stands for the time
// of the marks. Waits without a reason, or between two marks, are none.
func TestBlocked(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: time.Millisecond})
	w := p.Waits()
	begin := time.Now()
	if i := w.Info(); i.Unit.String() != "wait/nanoseconds" || i.Sink != w.Sink() || i.Sink == p.Sink() {
		t.Errorf("waits: %+v", i)
	}
	stop := start(t, p)
	ended := make(chan sampler.Ending, 1)
	go func() {
		e, _ := w.Run(context.Background())
		ended <- e
	}()
	g := attachDeep(p, 3)
	g.Blocked("lock", g)
	g.Blocked("another", g) // it waits already
	awaitMarks(p, 5)
	g.Unpark()
	most := time.Since(begin)
	g.Park()
	awaitMarks(p, 2)
	g.Unpark()
	stop()
	if e := <-ended; !e.Exited {
		t.Errorf("ending: %+v", e)
	}
	g.Blocked("late", g)
	g.Unpark()
	var got []ccmap.Sample
	w.Sink().Queue.Drain(func(s *ccmap.Sample) {
		c := *s
		c.Frames = append([]ccmap.Frame(nil), s.Frames...)
		got = append(got, c)
	})
	if len(got) != 1 || w.Stats().Counts[sampler.Samples] != 1 {
		t.Fatalf("%d samples of one wait", len(got))
	}
	// The time counts from the last mark before.
	if s := got[0]; s.Weight < int64(4*time.Millisecond)/2 || s.Weight > int64(most) || s.Thread != g.ID() {
		t.Errorf("%v of up to %v, thread %d", time.Duration(s.Weight), most, s.Thread)
	}
	names := w.Sink().Names
	if first := names.At(got[0].Frames[0].Method).Name; first != "[lock]" || len(got[0].Frames) != 4 {
		t.Errorf("%d frames, the first %q", len(got[0].Frames), first)
	}
	for i, f := range got[0].Frames[1:] {
		of := g.calls[len(g.calls)-1-i].frame
		if name, want := names.At(f.Method).Name, p.Sink().Names.At(of.Method).Name; name != want || f.Offset != of.Offset {
			t.Errorf("frame %d: %q, want %q", i+1, name, want)
		}
	}
}

// TestBlockedBetweenMarks: a wait without a mark, and one of a profiler without a marker, leave nothing.
func TestBlockedBetweenMarks(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Hour, -1} {
		p := managed.New(managed.Options{Interval: interval})
		g := attachDeep(p, 3)
		g.Blocked("lock", g)
		if interval < 0 {
			p.Mark(time.Millisecond)
		}
		g.Unpark()
		if s := p.Waits().Stats(); s.Counts[sampler.Samples] != 0 {
			t.Errorf("interval %v: %d samples", interval, s.Counts[sampler.Samples])
		}
		g.Detach()
	}
}
