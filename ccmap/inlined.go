package ccmap

import (
	"maps"
	"sync"
	"sync/atomic"
)

// inlined are the calls that a compiler has put into their caller. Any goroutine
// may use them. A call takes 12 bytes, and up to twice that in the map.
type inlined struct {
	mu    sync.RWMutex
	calls map[inlinedCall]struct{}
	any   atomic.Bool // there are some
}

type inlinedCall struct {
	caller Frame
	callee MethodID
}

// SetInlined says that the compiler has inlined a call: the caller at the offset of
// the call, and the callee. A call may be inlined in one copy of the caller and not
// in another; it counts as inlined then. Only methods whose coordinate is lines have
// such calls; others are dropped. To say it again costs no more than to look it up.
func (n *Names) SetInlined(caller Frame, callee MethodID) {
	if n.hasLines(caller.Method) && n.hasLines(callee) && !n.Inlined(caller, callee) {
		n.inlined.add(inlinedCall{caller, callee})
	}
}

// Inlined reports whether a call was inlined, as far as a source has said so.
func (n *Names) Inlined(caller Frame, callee MethodID) bool {
	return n.inlined.has(inlinedCall{caller, callee})
}

// hasLines reports whether the positions of a method are lines.
func (n *Names) hasLines(id MethodID) bool {
	return int64(id) < int64(n.Len()) && n.At(id).Coordinate == CoordinateLine
}

// adoptInlined adds the inlined calls that another table knows between methods which
// have an id here.
func (n *Names) adoptInlined(from *Names, ids methodIDs) {
	for call := range from.inlined.all() {
		if int64(max(call.caller.Method, call.callee)) < int64(len(ids)) {
			n.SetInlined(Frame{ids[call.caller.Method], call.caller.Offset}, ids[call.callee])
		}
	}
}

func (c *inlined) has(call inlinedCall) bool {
	if !c.any.Load() {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, has := c.calls[call]
	return has
}

func (c *inlined) add(call inlinedCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[inlinedCall]struct{})
	}
	c.calls[call] = struct{}{}
	c.any.Store(true)
}

// all returns a copy: what reads it may add to another table, or to this one.
func (c *inlined) all() map[inlinedCall]struct{} {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.calls)
}
