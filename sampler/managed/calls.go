package managed

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	burstCalls   = 32      // caught in one burst
	caughtFrames = 9       // of a caught call: the target, the call site and seven callers
	longestWait  = 1 << 62 // ns, for a burst: 146 years
)

// callBursts decides when calls are caught: 32 in a row, from any threads, at random
// moments. The waits in between have an exponential distribution.
//
//	left  calls still to be caught; signals.wanted is set until it is 0
//	next  start of the next burst, in ns of timekeeper.elapsed; 0: drawn
//	      after the present burst. Under Profiler.marking
type callBursts struct {
	left atomic.Int32
	next int64
}

// draw chooses the start of the next burst.
func (c *callBursts) draw(now int64, budget float64) {
	wait := burstCalls / budget * float64(time.Second) * rand.ExpFloat64()
	c.next = now + int64(min(max(wait, 1), longestWait))
}

// due reports whether a burst begins now. There must be no burst now.
func (c *callBursts) due(now int64, budget float64) bool {
	if c.next == 0 {
		c.draw(now, budget)
	}
	if now < c.next {
		return false
	}
	c.next = 0
	return true
}

// wantCalls begins a burst if one is due, and reports that.
func (p *Profiler) wantCalls() bool {
	if p.hitBudget < 0 || p.wanted.Load() || !p.calls.due(p.time.elapsed.Load(), p.hitBudget) {
		return false
	}
	p.calls.left.Store(burstCalls)
	p.wanted.Store(true)
	p.counts.bursts.Add(1)
	return true
}

// Called reports a call that the VM will make now, and its target: the method of the
// receiver's exact type, or the VM's wrapper of it. The innermost frame that w shows is
// the caller at its call. Call it while [Thread.CallsWanted]; it reports whether more
// calls are wanted.
func (t *Thread) Called(target ccmap.MethodID, w Walker) (more bool) {
	p := t.profiler
	if t.walking || t.off || !p.wanted.Load() {
		return false
	}
	left := p.calls.left.Add(-1)
	if left < 0 {
		return false
	}
	if left == 0 {
		p.wanted.Store(false)
	}
	t.catchCall(target, w)
	return left > 0
}

// spare gives a burst the call back that it has just lost, unless that was its last one.
func (p *Profiler) spare() {
	for {
		left := p.calls.left.Load()
		if left <= 0 || p.calls.left.CompareAndSwap(left, left+1) {
			return
		}
	}
}

// catchCall pushes a caught call, unless an earlier run knows its site well.
func (t *Thread) catchCall(target ccmap.MethodID, w Walker) {
	s := &t.stack
	s.begin(true)
	s.visit(Frame{Method: target, Offset: ccmap.NoOffset})
	if !t.walk(w, t.visitCaller) || len(s.frames) < 2 {
		return
	}
	if t.profiler.spares(s.frames[1]) {
		t.profiler.spare()
		s.forget()
		return
	}
	t.sample = ccmap.Sample{
		Frames:    s.frames,
		Thread:    t.id,
		Time:      t.profiler.clock.Now(),
		Fresh:     ccmap.FreshUnknown,
		Truncated: s.cut,
		Hit:       true,
	}
	if t.push() {
		t.profiler.counts.hits.Add(1)
	}
	s.forget()
}
