package managed

import (
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
)

// stack is the result of a walk: the frames down to the first frame with a depth from an
// earlier sample of this attachment, or all frames.
type stack struct {
	first, id uint64 // ids of attachments: the profiler's first one, and this one
	serial    uint32 // of this one, in marks
	limit     int    // of frames
	whole     bool   // go on to the outermost frame

	frames []ccmap.Frame // innermost first
	marks  []*Mark       // of the frames; nil: no slot
	fresh  int           // number of innermost frames that are new
	old    bool          // a frame was found that is not new
	slots  bool          // a frame was found that has a slot
	stop   int           // frames down to the first one with a depth; 0: none was found
	depth  uint32        // of that frame
	cut    bool          // there are more frames
	done   bool          // no more frames are wanted
}

// begin prepares the stack for a walk.
func (s *stack) begin(whole bool) {
	if s.frames == nil {
		s.frames, s.marks = make([]ccmap.Frame, 0, usualFrames), make([]*Mark, 0, usualFrames)
	}
	s.whole = whole
	s.frames, s.marks = s.frames[:0], s.marks[:0]
	s.fresh, s.old, s.slots = 0, false, false
	s.stop, s.depth = 0, 0
	s.cut, s.done = false, false
}

// usualFrames is the initial room.
const usualFrames = 32

// visit takes a frame. It ignores the frames of a walker that does not stop.
func (s *stack) visit(f Frame) bool {
	if s.done {
		return false
	}
	if len(s.frames) == s.limit {
		s.cut, s.done = true, true
		return false
	}
	s.frames = append(s.frames, ccmap.Frame{Method: f.Method, Offset: f.Offset})
	s.marks = append(s.marks, f.Mark)
	if f.Mark != nil {
		s.look(*f.Mark)
	}
	return !s.done
}

// look takes a frame's mark. Frames above a new activation are newer, with or without a
// slot. Frames below an old one may be new if an earlier walk was cut. A sample cannot
// say so, and counts them when the frames above have returned.
func (s *stack) look(m Mark) {
	s.slots = true
	if !s.visited(m) {
		if !s.old {
			s.fresh = len(s.frames)
		}
		return
	}
	s.old = true
	if s.stop == 0 && m.serial == s.serial && m.depth != 0 {
		s.stop, s.depth = len(s.frames), m.depth
		s.done = !s.whole
	}
}

// visited reports whether a sample of this profiler has seen the activation. An
// activation that only an earlier session's profiler has seen is new. The serial is half
// an id, and stands for the nearest attachment.
func (s *stack) visited(m Mark) bool {
	id := int64(s.id) + int64(int32(m.serial-s.serial))
	return m.serial != 0 && id >= int64(s.first)
}

// shorten keeps the frames down to the first one with a depth, as if the walk had ended
// there. The map must have the rest.
func (s *stack) shorten() {
	s.frames, s.marks = s.frames[:s.stop], s.marks[:s.stop]
	s.cut, s.whole = false, false
}

// describe writes the walk's result to a sample.
func (s *stack) describe(out *ccmap.Sample) {
	out.Frames, out.Truncated = s.frames, s.cut
	out.Depth = 0
	if !s.whole {
		out.Depth = s.depth
	}
	out.Fresh, out.Top = s.verdict()
}

// verdict returns the number of innermost frames that are new, and whether the top one is
// new: the paper calls a visited frame on top a repetition (section 3.3).
func (s *stack) verdict() (fresh int32, top ccmap.Repetition) {
	switch {
	case !s.slots:
		return ccmap.FreshUnknown, ccmap.TopUnknown
	case s.fresh > 0:
		return int32(s.fresh), ccmap.TopNew
	case s.marks[0] == nil:
		return 0, ccmap.TopUnknown
	}
	return 0, ccmap.TopRepeated
}

// mark marks the activations as seen. It notes their depths unless the walk was cut.
func (s *stack) mark() {
	outermost := s.depth
	if s.depth == 0 || s.whole {
		outermost = 1
	}
	for i, m := range s.marks {
		switch {
		case m == nil || i >= s.fresh && !s.visited(*m):
		case s.cut:
			*m = Mark{serial: s.serial}
		default:
			*m = Mark{serial: s.serial, depth: outermost + uint32(len(s.marks)-1-i)}
		}
	}
}

// forget drops the pointers into the VM's memory.
func (s *stack) forget() { clear(s.marks) }

// visitCaller is visit for a caught call, which has fewer frames and no marks.
func (s *stack) visitCaller(f Frame) bool {
	if len(s.frames) == caughtFrames {
		s.cut = true
		return false
	}
	return s.visit(Frame{Method: f.Method, Offset: f.Offset})
}

// Mark is the slot that a VM keeps in every activation record. A sample notes in it that
// it has seen the activation (the paper's additional slot on the stack, sections 3.1.4
// and 4). The zero Mark says that no sample has.
//
// The VM zeroes it when an activation begins, and never writes it otherwise. It may move
// in memory together with its record, between two safe points. Only the goroutine of the
// thread reads and writes it, so it needs no lock.
type Mark struct {
	serial uint32 // of the last attachment whose sample saw the activation, or 0
	depth  uint32 // of the activation, the outermost having 1; 0: the walk did not reach the outermost
}

// Clear resets the mark for a new activation.
func (m *Mark) Clear() { *m = Mark{} }

// Frame is an activation record, as a walker shows it.
type Frame struct {
	Method ccmap.MethodID // of the sink's names
	Offset uint32         // the current position, or the call it waits for; as in ccmap.Frame
	// Mark is the activation's slot. Nil: the activation has no slot, so it is unknown
	// whether it is new. See "Frames without a slot" in the package's documentation.
	Mark *Mark
}

// Walker walks the stack of a VM's thread.
type Walker interface {
	// Walk calls visit with every frame, innermost first, until visit returns false or
	// the outermost frame has been visited. It runs on the thread's goroutine, at a safe
	// point, and must not run code of the guest. The stack does not change meanwhile.
	// Marks are written after Walk has returned.
	Walk(visit func(Frame) bool)
}

// serials counts the attachments of this process, so that each has an id and a serial of
// its own.
var serials atomic.Uint64

// newSerial returns the id of a new attachment, and its low half, the serial. Marks carry
// the serial. It is never 0.
func newSerial() (id uint64, serial uint32) {
	for {
		id = serials.Add(1)
		if serial = uint32(id); serial != 0 {
			return id, serial
		}
	}
}
