package perf

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
)

// takeHit pushes a caught call, if what it reaches is a function that is known.
func (d *drainer) takeHit(h *perfevent.Call) bool {
	target, ok := d.code.target(h.Target, d.sink.Names)
	if !ok || d.replaced || int(h.PID) != d.pid {
		return false
	}
	t := d.taker
	t.stack = stack{pcs: append(t.stack.pcs[:0], h.Chain...)}
	t.cutAtRoot(&t.stack)
	t.finish(&t.stack)
	frames := append(t.out.Frames[:0], ccmap.Frame{Method: target})
	frames = t.code.frames(t.visible(), d.sink.Names, frames)
	if len(frames) < 2 {
		return false
	}
	t.out = ccmap.Sample{
		Frames:    frames[:min(len(frames), 1+hitCallers)],
		Thread:    t.runner(h),
		OSThread:  h.TID,
		Time:      int64(h.Time),
		Fresh:     ccmap.FreshUnknown,
		Truncated: !t.stack.rooted || len(frames) > 1+hitCallers,
		Hit:       true,
	}
	d.local.Push(&t.out)
	d.pending = true
	return true
}

// runner is the goroutine that made the call, or its thread where goroutines are
// not told apart.
func (t *taker) runner(h *perfevent.Call) uint64 {
	if t.who != nil && plausible(h.R14) {
		return h.R14
	}
	return osThread | uint64(h.TID)
}
