package wasm

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// walk is a look at an instance's stack, innermost first:
//
//	the host function that has just returned, behind its call
//	the frames of wazero's stack, down to the function by which the host entered
//	for each call back: the host function that made it, and the frames below, as they
//	were noted when that was called
//
// The marks of the instance's activations are numbered by depth, from the outermost:
// wazero's frames have no room for them.
type walk struct {
	stack    experimental.StackIterator // nil: no safe point
	top      position                   // its first frame
	more     bool                       // there was one
	depth    int                        // of the innermost instrumented activation
	returned managed.Mark               // of the host function that has returned
	host     int64                      // its index; -1: none
	entering bool                       // the innermost activation has only begun
	entry    *entered                   // that is about to end: the only frame
}

func (w *walk) begin(stack experimental.StackIterator) { *w = walk{stack: stack, host: -1} }

func (w *walk) end() { *w = walk{host: -1} }

// Walk implements [managed.Walker].
func (in *instance) Walk(visit func(managed.Frame) bool) {
	w := &in.walk
	if w.entry != nil {
		visit(in.entryFrame(w.entry))
		return
	}
	if w.host >= 0 && !visit(in.hostFrame(uint32(w.host), &w.returned)) {
		return
	}
	base, direct := 0, true
	if n := len(in.entries); n > 0 {
		base, direct = in.entries[n-1].base, in.entries[n-1].direct
	}
	walkFrames := in.walkCounted
	if in.depth == nil {
		walkFrames = in.walkUncounted
	}
	whole, goesOn := walkFrames(base, visit)
	switch {
	case !goesOn:
	case !whole || direct:
		visit(in.truncatedFrame())
	default:
		in.walkOuter(visit)
	}
}

// walkCounted visits the frames of wazero's stack down to a depth. It returns whether
// it has come there, and whether to go on. An activation that has only begun
// is left out where it has a caller in the guest, whose time it was until now.
func (in *instance) walkCounted(base int, visit func(managed.Frame) bool) (whole, goesOn bool) {
	w := &in.walk
	at, more := w.top, w.more
	depth := w.depth
	if w.entering && depth > base+1 {
		at, more = in.next(w.stack)
		depth--
	}
	for ; more && depth > base && !at.foreign; at, more = in.next(w.stack) {
		if at.added {
			continue
		}
		if depth == base+1 {
			in.noteFirst(at.frame.Method)
		}
		if !visit(managed.Frame{Method: at.frame.Method, Offset: at.frame.Offset, Mark: in.markAt(depth)}) {
			return false, false
		}
		depth--
	}
	return depth == base, true
}

// noteFirst notes of what method the segment's first activation is: not of the
// entry's, if that has made a tail call.
func (in *instance) noteFirst(method ccmap.MethodID) {
	if n := len(in.entries); n > 0 {
		e := &in.entries[n-1]
		e.replaced = e.replaced || method != in.module.method(e.entry.function)
	}
}

// walkUncounted is walkCounted for a guest that does not tell the depth: it visits all
// frames of wazero's stack, which is the segment's own unless another module has
// called.
func (in *instance) walkUncounted(_ int, visit func(managed.Frame) bool) (whole, goesOn bool) {
	w := &in.walk
	at, more := w.top, w.more
	if w.entering {
		caller, ok := in.next(w.stack)
		alone := !ok || caller.foreign || caller.added
		if alone && more && !visit(unmarked(at.frame)) {
			return false, false
		}
		at, more = caller, ok
	}
	for ; more && !at.foreign; at, more = in.next(w.stack) {
		if !at.added && !visit(unmarked(at.frame)) {
			return false, false
		}
	}
	return !more, true
}

func unmarked(f ccmap.Frame) managed.Frame { return managed.Frame{Method: f.Method, Offset: f.Offset} }

// walkOuter visits what lies below the innermost entry.
func (in *instance) walkOuter(visit func(managed.Frame) bool) {
	for i := len(in.entries) - 2; i >= 0; i-- {
		e := &in.entries[i]
		if !e.calling {
			visit(in.truncatedFrame())
			return
		}
		if !visit(in.hostFrame(e.host, &e.hostMark)) {
			return
		}
		for k, f := range e.frames {
			if !visit(managed.Frame{Method: f.Method, Offset: f.Offset, Mark: in.markAt(e.depth - k)}) {
				return
			}
		}
		if e.cut {
			visit(in.truncatedFrame())
			return
		}
	}
}

// truncatedFrame stands for frames that the profiler cannot see, outermost.
func (in *instance) truncatedFrame() managed.Frame {
	names := in.module.profiler.Sink().Names
	return managed.Frame{Method: names.Intern(ccmap.Method{Name: ccmap.TruncatedName}), Offset: ccmap.NoOffset}
}
