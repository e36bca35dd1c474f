package perf

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

// hit is a call that a breakpoint has caught.
type hit struct {
	pid, tid uint32
	time     uint64
	chain    []uint64 // the call instruction, then return addresses
	target   uint64   // what the call is about to reach
	g        uint64   // descriptor of the goroutine
}

// decode reads the body of a sample as [breakpointAttr] asks for it. It reuses
// h.chain.
func (h *hit) decode(c call, body []byte) error {
	cur := cursor{b: body}
	ip := cur.u64()
	h.pid, h.tid = cur.u32(), cur.u32()
	h.time = cur.u64()
	h.chain = cur.userChain(h.chain[:0])
	if cur.u64() != unix.PERF_SAMPLE_REGS_ABI_64 {
		return errRecord
	}
	h.target, h.g = cur.u64(), cur.u64()
	if c.reg > regR14 { // registers come in the order of their numbers
		h.target, h.g = h.g, h.target
	}
	if cur.short || ip != c.pc || len(h.chain) == 0 || h.chain[0] != c.pc {
		return errRecord
	}
	return nil
}

// takeHit pushes a caught call, if what it reaches is a function that is known.
func (d *drainer) takeHit(h *hit) bool {
	target, ok := d.code.target(h.target, d.sink.Names)
	if !ok || d.replaced || int(h.pid) != d.pid {
		return false
	}
	t := d.taker
	t.stack = stack{pcs: append(t.stack.pcs[:0], h.chain...)}
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
		OSThread:  h.tid,
		Time:      int64(h.time),
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
func (t *taker) runner(h *hit) uint64 {
	if t.who != nil && plausible(h.g) {
		return h.g
	}
	return osThread | uint64(h.tid)
}
