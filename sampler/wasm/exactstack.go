package wasm

import "github.com/ccmapd/ccmapd/ccmap"

// activation is an unfinished call.
type activation struct {
	frame   ccmap.Frame // the method, and the position of its call of the next one
	host    bool        // of a host function
	counted bool        // it has a number
	depth   uint32      // of the guest when it began: numbered activations below
	own     int64       // instructions that it has executed itself and not yet reported, ≥ 0
}

// callStack holds the activations of one stack, and makes the samples that fold to its
// exact Call Context Map: one for each activation, at its end.
//
// An activation that ends usually stands above callers that an earlier sample had. So its
// sample is partial: itself, the callers that no sample had so far, and the first caller
// that a sample had. Each activation is a new frame in one sample and the last frame in
// at most one more for each of its calls, so a call costs the same however deep the stack
// is. The activations that samples had are always the outermost ones, so their number
// marks them.
//
// It belongs to one goroutine at a time.
type callStack struct {
	calls  []activation // outermost first
	seen   int          // outermost activations that a sample had
	sample ccmap.Sample // reused by every report
}

// mostUnseen bounds the frames of a sample. When there are so many calls that no sample
// had, one of them is reported before its end.
const mostUnseen = 100

// spend counts instructions for the innermost activation.
func (c *callStack) spend(instructions int64) {
	if n := len(c.calls); n > 0 {
		c.calls[n-1].own += instructions
	}
}

// enter begins an activation. The innermost activation calls it at position site.
func (c *callStack) enter(a activation, site uint32, push func(*ccmap.Sample)) {
	if n := len(c.calls); n > 0 {
		c.calls[n-1].frame.Offset = site
		if n-c.seen == mostUnseen {
			c.report(n-1, push)
		}
	}
	a.frame.Offset = ccmap.NoOffset
	c.calls = append(c.calls, a)
}

// innermost returns the index of the innermost activation of a method, or -1.
func (c *callStack) innermost(method ccmap.MethodID) int {
	i := len(c.calls) - 1
	for i >= 0 && c.calls[i].frame.Method != method {
		i--
	}
	return i
}

// innermostHost returns the index of the innermost activation of a host function, or -1.
func (c *callStack) innermostHost() int {
	i := len(c.calls) - 1
	for i >= 0 && !c.calls[i].host {
		i--
	}
	return i
}

// guest returns the innermost activation if it is in the guest, else nil.
func (c *callStack) guest() *activation {
	n := len(c.calls)
	if n == 0 || c.calls[n-1].host {
		return nil
	}
	return &c.calls[n-1]
}

// leave ends the innermost activation.
func (c *callStack) leave(push func(*ccmap.Sample)) {
	top := len(c.calls) - 1
	c.report(top, push)
	c.calls = c.calls[:top]
	c.seen = min(c.seen, top)
}

// leaveTo ends activations until depth are left.
func (c *callStack) leaveTo(depth int, push func(*ccmap.Sample)) {
	for len(c.calls) > depth {
		c.leave(push)
	}
}

// flush reports all activations as they are now, and leaves them on the stack.
func (c *callStack) flush(push func(*ccmap.Sample)) {
	for i := len(c.calls) - 1; i >= 0; i-- {
		c.report(i, push)
	}
}

// report pushes the instructions that activation i has executed since its last report,
// and its new callers.
func (c *callStack) report(i int, push func(*ccmap.Sample)) {
	s := &c.sample
	s.Frames = append(s.Frames[:0], ccmap.Frame{Method: c.calls[i].frame.Method, Offset: ccmap.NoOffset})
	outermost := min(max(c.seen-1, 0), i)
	for k := i - 1; k >= outermost; k-- {
		s.Frames = append(s.Frames, c.calls[k].frame)
	}
	s.Weight = c.calls[i].own
	s.Fresh = int32(max(i+1-c.seen, 0))
	s.Depth = 0
	if outermost > 0 {
		s.Depth = uint32(outermost + 1)
	}
	c.calls[i].own = 0
	c.seen = max(c.seen, i+1)
	push(s)
}
