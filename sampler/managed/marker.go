package managed

import (
	"context"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
)

// sweepEvery is how often the marker publishes for threads that are at rest.
const sweepEvery = 250 * time.Millisecond

// lateAfter is after how many intervals a mark is late.
const lateAfter = 1.5

// Run is the marker: it marks all threads once an interval, until the context is
// done or [Profiler.Finish] is called, and then publishes what the threads have
// taken and ends sampling for good. Threads go on, at no cost.
//
// Where a goroutine of the VM does not yield, the marker needs a processor of its
// own (GOMAXPROCS 2) to be in time. It returns no error.
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
	last     time.Time     // tick, or the beginning
	cpu      time.Duration // of this process, at the last tick
}

// schedule sets the timer for the next tick by the interval in force.
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
	p.mark(func() { p.time.run(passed, ran, runtime.GOMAXPROCS(0)) })
	m.schedule()
}

// Mark marks all threads: each takes a sample at its next safe point. The samples
// stand for the time given, which may be by any clock and is 0 if negative. The
// marker does so by itself; this is for a VM without one ([Options].Interval
// negative).
func (p *Profiler) Mark(d time.Duration) {
	p.mark(func() { p.time.pass(max(d, 0)) })
}

// mark marks all threads for the time that is passed.
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

// callHooks tells the hooks of a mark, and of a burst of calls if one begins.
func (p *Profiler) callHooks(calls bool) {
	p.told = p.hooked.appendTo(p.told[:0])
	for _, s := range p.told {
		p.callHook(s, calls)
	}
	clear(p.told)
}

// callHook calls one hook. One that panics has its thread switched off.
func (p *Profiler) callHook(s *seat, calls bool) {
	t := s.thread.Value()
	if t == nil { // garbage
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			p.panicked(t.id, cause)
			t.Detach()
		}
	}()
	t.hook.Mark()
	if calls {
		t.hook.WantCalls()
	}
}

// sweep publishes for threads at rest, and counts those that are overdue.
func (p *Profiler) sweep(now time.Time) {
	epoch, overdue := p.epoch.Load(), int64(0)
	look := func(s *seat) {
		s.publish()
		if s.overdue(epoch, now) {
			overdue++
		}
	}
	p.plain.each(look)
	p.hooked.each(look)
	p.counts.unsafe.Store(overdue)
}

// end refuses samples from now on and publishes those before. A thread is either
// in time with its push, or refused: both happen under the lock of its seat.
func (p *Profiler) end() {
	p.marking.Lock()
	p.ended.Store(true)
	p.wanted.Store(false)
	p.marking.Unlock()
	p.plain.each((*seat).giveUpRing)
	p.hooked.each((*seat).giveUpRing)
}
