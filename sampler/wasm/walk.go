package wasm

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// walk is a look at an instance's stack, innermost first:
//
//	the host function that has just returned, at the safe point after its call
//	the frames of wazero's stack, down to the function that the host called
//	for each call back: the host function that made it, and the frames below, as they
//	were noted when that was called
//
// Marks of activations are kept by number, because wazero's frames have no room for them.
type walk struct {
	stack    experimental.StackIterator // nil: not at a safe point
	top      position                   // its first frame
	more     bool                       // the stack had a frame
	number   int                        // of the innermost activation
	returned managed.Mark               // of the host function that has returned
	host     int64                      // its index, or -1
	entering bool                       // the innermost activation has only begun
	entry    *entered                   // about to end, and the only frame
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
	whole, goesOn := in.walkSegment(base, visit)
	switch {
	case !goesOn:
	case !whole || direct:
		visit(truncatedFrame)
	default:
		in.walkOuter(visit)
	}
}

// walkSegment visits the activations on wazero's stack with numbers above base. It
// returns whether it reached base, and whether to go on. It leaves out an activation that
// has only begun, if that has a caller in the guest: the time until now was the caller's.
func (in *instance) walkSegment(base int, visit func(managed.Frame) bool) (whole, goesOn bool) {
	w := &in.walk
	at, more := w.top, w.more
	number := w.number
	if w.entering && number > base+1 {
		at, more = in.next(w.stack)
		number--
	}
	for ; more && number > base && !at.foreign; at, more = in.next(w.stack) {
		if at.added {
			continue
		}
		if number == base+1 {
			in.noteFirst(at.frame.Method)
		}
		if !visit(in.frame(at, number)) {
			return false, false
		}
		number--
	}
	return number == base, true
}

// frame is an activation with a number.
func (in *instance) frame(at position, number int) managed.Frame {
	f := managed.Frame{Method: at.frame.Method, Offset: at.frame.Offset}
	if !at.silent {
		f.Mark = in.markAt(number)
	}
	return f
}

// noteFirst compares the method of the segment's first activation with the entry's. They
// differ after a tail call.
func (in *instance) noteFirst(method ccmap.MethodID) {
	if n := len(in.entries); n > 0 && in.entries[n-1].entry != nil {
		e := &in.entries[n-1]
		e.replaced = e.replaced || method != in.module.method(e.entry.function)
	}
}

// walkOuter visits the frames below the innermost entry.
func (in *instance) walkOuter(visit func(managed.Frame) bool) {
	for i := len(in.entries) - 2; i >= 0; i-- {
		e := &in.entries[i]
		if !e.calling {
			visit(truncatedFrame)
			return
		}
		if !visit(in.hostFrame(e.host, &e.hostMark)) {
			return
		}
		for k, at := range e.frames {
			if !visit(in.frame(at, e.depth-k)) {
				return
			}
		}
		if e.cut {
			visit(truncatedFrame)
			return
		}
	}
}

// truncatedFrame stands for frames that the profiler cannot see. It is the outermost.
var truncatedFrame = managed.Frame{Method: ccmap.TruncatedID, Offset: ccmap.NoOffset}
