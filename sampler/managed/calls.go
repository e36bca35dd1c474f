package managed

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	burstCalls  = 32      // caught in one burst
	hitFrames   = 9       // of a caught call: what it reaches, the call site and seven callers
	longestWait = 1 << 62 // ns, for a burst: 146 years
)

// callBursts says when calls are caught: 32 in a row, by whichever threads make
// them, at random moments (the waits in between are of exponential distribution).
//
//	left  calls still to be caught; signals.wanted is set while there are any
//	next  ns of timekeeper.elapsed at which the next burst begins; 0: to be drawn
//	      once the last one is over. Under Profiler.marking
type callBursts struct {
	left atomic.Int32
	next int64
}

// draw chooses when the next burst begins.
func (c *callBursts) draw(now int64, budget float64) {
	wait := burstCalls / budget * float64(time.Second) * rand.ExpFloat64()
	c.next = now + int64(min(max(wait, 1), longestWait))
}

// due reports whether a burst begins now. None is on.
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

// Called tells of one call that is about to be made and what it reaches: the
// method of the receiver's exact type, a wrapper included where the VM has those.
// The innermost frame that w shows is the caller at its call. It is to be called
// while [Thread.CallsWanted]; it reports whether more calls are wanted.
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

// catchCall pushes a caught call.
func (t *Thread) catchCall(target ccmap.MethodID, w Walker) {
	s := &t.stack
	s.begin(true)
	s.visit(Frame{Method: target, Offset: ccmap.NoOffset})
	if !t.walk(w, t.visitCaller) || len(s.frames) < 2 {
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
