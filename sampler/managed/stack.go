package managed

import "github.com/ccmapd/ccmapd/ccmap"

// stack is what a walk has seen: the frames down to the first one that an earlier
// sample of this attachment has left with its depth, or all of them.
type stack struct {
	first, id uint64 // of attachments: the profiler's first one, and this one
	serial    uint32 // of this one, in marks
	limit     int    // of frames
	whole     bool   // go on to the outermost frame

	frames []ccmap.Frame // innermost first
	marks  []*Mark       // of the frames; nil: no slot
	fresh  int           // how many of the innermost frames are new
	old    bool          // a frame was found that is not
	slots  bool          // a frame was found that has a slot
	stop   int           // how many frames there are to the first one with a depth; 0: none was found
	depth  uint32        // of that frame
	cut    bool          // there are more frames
	done   bool          // no more are wanted
}

// begin makes the stack ready for a walk.
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

// usualFrames is for how many there is room at first.
const usualFrames = 32

// visit takes in a frame. A walker that goes on when it was told to stop is not
// listened to.
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

// look takes in a frame's mark. What lies above a new activation is newer, slot
// or not; what lies below an old one may be new where an earlier walk was cut, but
// a sample cannot say so, and counts it when what lies above has returned.
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

// visited reports whether a sample of this profiler has seen the activation. One
// that a profiler of an earlier session has seen is new to this one. The serial is
// half an id: that of the attachment which is the nearest to this one.
func (s *stack) visited(m Mark) bool {
	id := int64(s.id) + int64(int32(m.serial-s.serial))
	return m.serial != 0 && id >= int64(s.first)
}

// shorten leaves the frames down to the first one with a depth, if there is one
// and the map has the rest: as if the walk had ended there.
func (s *stack) shorten() {
	s.frames, s.marks = s.frames[:s.stop], s.marks[:s.stop]
	s.cut, s.whole = false, false
}

// describe writes what the walk has seen to a sample.
func (s *stack) describe(out *ccmap.Sample) {
	out.Frames, out.Truncated = s.frames, s.cut
	out.Depth = 0
	if !s.whole {
		out.Depth = s.depth
	}
	out.Fresh, out.Top = s.verdict()
}

// verdict returns how many of the innermost frames are new, and whether the top
// one is: the paper calls a visited frame on top a repetition (section 3.3).
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

// mark notes in the slots that the activations have been seen, with their depths
// unless the walk was cut.
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

// forget lets go of the VM's memory.
func (s *stack) forget() { clear(s.marks) }

// visitCaller is visit for a caught call, which has fewer frames and no marks.
func (s *stack) visitCaller(f Frame) bool {
	if len(s.frames) == hitFrames {
		s.cut = true
		return false
	}
	return s.visit(Frame{Method: f.Method, Offset: f.Offset})
}
