package managed

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
)

// sweepEvery is the time between two publications for threads at rest.
const sweepEvery = 250 * time.Millisecond

// lateAfter is the number of intervals after which a mark is late.
const lateAfter = 1.5

// Run is the marker: it marks all threads once an interval, until the context is done or
// [Profiler.Finish] is called. Then it publishes all samples and ends sampling for good.
// Threads go on, at no cost.
//
// If a goroutine of the VM does not yield, the marker needs a processor of its own
// (GOMAXPROCS 2) to be in time. Run returns no error.
func (p *Profiler) Run(ctx context.Context) (sampler.Ending, error) {
	defer p.end()
	m := marker{profiler: p, last: time.Now(), cpu: processTime()}
	m.timer = time.NewTimer(MaxInterval)
	defer m.timer.Stop()
	m.schedule()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return sampler.Ending{Reason: "stopped"}, nil
		case reason := <-p.finished:
			return sampler.Ending{Reason: reason, Exited: true}, nil
		case <-p.change.wake:
			m.schedule()
		case <-m.timer.C:
			m.tick()
		case <-sweep.C:
			p.sweep(time.Now())
		}
	}
}

// marker is the state of Run.
type marker struct {
	profiler *Profiler
	timer    *time.Timer
	last     time.Time     // last tick, or the beginning
	cpu      time.Duration // of this process, at the last tick
}

// schedule sets the timer for the next tick, by the present interval.
func (m *marker) schedule() {
	p := m.profiler
	if p.manual {
		m.timer.Stop()
		return
	}
	m.timer.Reset(time.Until(m.last.Add(time.Duration(p.interval.Load()))))
	p.change.done()
}

// tick marks all threads for the time since the last tick.
func (m *marker) tick() {
	p := m.profiler
	now := time.Now()
	cpu := processTime()
	passed, ran := now.Sub(m.last), cpu-m.cpu
	m.last, m.cpu = now, cpu
	if float64(passed) > lateAfter*float64(p.interval.Load()) {
		p.counts.late.Add(1)
	}
	p.mark(func() {
		p.time.run(passed, ran, runtime.GOMAXPROCS(0))
		p.waits.last.Store(p.clock.Now())
	})
	m.schedule()
}

// Mark marks all threads: each takes a sample at its next safe point. The samples stand
// for the time d, by any clock; a negative d is 0. The marker calls it by itself. A VM
// without a marker ([Options].Interval negative) calls Mark.
func (p *Profiler) Mark(d time.Duration) {
	p.mark(func() { p.time.pass(max(d, 0)) })
}

// mark marks all threads for the time that pass adds.
func (p *Profiler) mark(pass func()) {
	p.marking.Lock()
	defer p.marking.Unlock()
	if p.ended.Load() {
		return
	}
	pass()
	p.counts.marks.Add(1)
	p.epoch.Add(1)
	p.callHooks(p.wantCalls())
}

// callHooks reports a mark to the hooks, and a burst of calls if one begins.
func (p *Profiler) callHooks(calls bool) {
	p.told = p.hooked.appendTo(p.told[:0])
	for _, s := range p.told {
		p.callHook(s, calls)
	}
	clear(p.told)
}

// callHook calls a hook. If it panics, its thread is switched off.
func (p *Profiler) callHook(s *seat, calls bool) {
	t := s.thread.Value()
	if t == nil { // garbage
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			p.panicked(t.id, cause)
			t.seat.leave() // not Detach: its goroutine may be counting
		}
	}()
	t.hook.Mark()
	if calls {
		t.hook.WantCalls()
	}
}

// sweep publishes for threads at rest, and counts the overdue ones.
func (p *Profiler) sweep(now time.Time) {
	epoch, overdue := p.epoch.Load(), int64(0)
	p.points.ask()
	look := func(s *seat) {
		s.publish()
		p.mergeParked(s)
		if s.overdue(epoch, now) {
			overdue++
		}
	}
	p.plain.each(look)
	p.hooked.each(look)
	p.counts.unsafe.Store(overdue)
}

// end refuses samples from now on and publishes the earlier ones. A thread's push is
// either in time or refused: both happen under the lock of its seat.
func (p *Profiler) end() {
	p.marking.Lock()
	if !p.ended.Swap(true) {
		close(p.waits.over)
	}
	p.wanted.Store(false)
	p.marking.Unlock()
	p.points.ask()
	last := func(s *seat) {
		s.giveUpRing()
		p.mergeParked(s)
	}
	p.plain.each(last)
	p.hooked.each(last)
}

// change is the last change of the interval.
//
//	wake  has a token if the marker must look
//	rest  under mu
type change struct {
	wake chan struct{} // capacity 1

	mu   sync.Mutex
	at   time.Time     // time of the request; zero: done
	last time.Duration // duration of the last change
}

func (c *change) ask() {
	c.mu.Lock()
	if c.at.IsZero() {
		c.at = time.Now()
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// done notes that the marker uses the requested interval.
func (c *change) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() {
		c.last, c.at = time.Since(c.at), time.Time{}
	}
}

func (c *change) took() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// SetInterval changes the interval for all threads. The marker uses it from its last mark
// on. It is limited to MinInterval and MaxInterval. The error wraps
// [sampler.ErrUnsupported] if there is no marker.
func (p *Profiler) SetInterval(d time.Duration) error {
	if p.manual {
		return fmt.Errorf("set interval: the VM marks its threads itself: %w", sampler.ErrUnsupported)
	}
	p.interval.Store(int64(clampInterval(d)))
	p.change.ask()
	return nil
}
