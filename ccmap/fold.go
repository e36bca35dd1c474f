package ccmap

import "slices"

// Fold counts one sample in the map. It keeps nothing of s. It allocates only
// where the map grows, where it writes to counters for the first time since a
// snapshot, and where it prunes a map that has outgrown [Options].MaxBytes.
//
// Samples and time are counted on the position of the innermost frame, or on
// the frame's own node where its position is unknown; activations on the nodes
// of the frames that are new.
//
// The map remembers the last stack of each thread. It walks only the frames that
// have changed since, and completes a partial sample from the last stack. If the
// thread is not remembered, or its stack does not have that method at that depth,
// then the sample is an orphan: it is folded like a truncated one and counted in
// [Loss.Orphaned].
//
// The window's clock follows the samples' Time. Threads may deliver a sample of a
// time before the clock's: it counts as one of now.
//
// Other bad samples: one without frames is dropped and counted in
// [Loss.Corrupt]; a method that Names does not hold, or [PrunedName], is [UnknownName];
// Fresh out of range is FreshUnknown; a negative weight is 0; Depth in a truncated
// sample is ignored.
func (m *Map) Fold(s *Sample) {
	if len(s.Frames) == 0 {
		m.meta.Loss.Corrupt++
		return
	}
	t := m.last.of(s.Thread, s.Goroutine)
	aligned := !t.cut && (len(t.path) > 0 || !m.last.forgot)
	base, frames := m.base(t, s)
	kept := t.common(base, frames)
	known := kept
	if kept == 0 && m.names.Labelled() {
		known = m.sameCalls(t, frames)
	}
	if t.generation != m.generation {
		m.renew(t, kept)
	}
	m.last.resize(t, kept, base+len(frames))
	m.descend(t, kept, frames)
	m.count(s, t.path[len(t.path)-1])
	m.countActivations(t.path, m.fresh(s, len(frames), known, len(t.path), aligned && !t.cut))
	if m.last.frames > m.last.most.frames {
		m.last.trim()
	}
	if size := m.size(); size != m.measured {
		m.measured = size
		if m.Bytes() > m.outgrown {
			m.keepBudget()
		}
	}
}

// FoldBatch folds samples in their order.
func (m *Map) FoldBatch(ss []Sample) {
	for i := range ss {
		m.Fold(&ss[i])
	}
}

// base makes the last stack hold the frames that lie outside the frames of s. It
// returns their number, and the frames of s inside them.
func (m *Map) base(t *lastStack, s *Sample) (base int, frames []Frame) {
	if !s.Truncated && s.Depth == 0 {
		if t.cut {
			t.clear()
		}
		return 0, s.Frames
	}
	if !s.Truncated && t.has(s.Depth, s.Frames[len(s.Frames)-1].Method) {
		return int(s.Depth - 1), s.Frames
	}
	if !s.Truncated {
		m.meta.Loss.Orphaned++
	}
	labels := m.names.labelsOf(s.Frames)
	m.cut(t, labels)
	return 1 + len(labels), s.Frames[:len(s.Frames)-len(labels)]
}

// cut makes the last stack begin with its labels, if it has any, and the pseudo frame of
// truncated stacks. It keeps the other frames of a stack that begins so.
func (m *Map) cut(t *lastStack, labels []Frame) {
	if t.cut && slices.Equal(labels, m.names.labelsOf(t.frames[:1])) {
		return
	}
	t.clear()
	m.last.resize(t, 0, 1+len(labels))
	copy(t.frames, labels)
	t.frames[len(labels)] = Frame{Method: TruncatedID, Offset: NoOffset}
	v := NodeID(0)
	for i := range t.frames {
		t.frames[i].Offset = NoOffset
		v = m.child(node{NoOffset, t.frames[i].Method, v})
		t.path[i] = v
	}
	t.cut = true
}

// renew finds the outermost kept nodes of a path again, after pruning has given
// nodes other ids.
func (m *Map) renew(t *lastStack, kept int) {
	t.generation = m.generation
	v, site := NodeID(0), NoOffset
	for i, f := range t.frames[:kept] {
		v = m.child(node{site, f.Method, v})
		t.path[i], site = v, f.Offset
	}
}

// descend finds or adds the nodes of the path from kept on, and writes them and
// their frames to the last stack. The frames are the innermost of the stack,
// innermost first.
func (m *Map) descend(t *lastStack, kept int, frames []Frame) {
	v, site := NodeID(0), NoOffset
	if kept > 0 {
		v, site = t.path[kept-1], t.frames[kept-1].Offset
	}
	stack, path := t.frames[kept:], t.path[kept:]
	frames = frames[:len(path)]
	limit := m.names.Len()
	for i := range path {
		f := frames[len(frames)-1-i]
		if int64(f.Method) >= int64(limit) || f.Method == PrunedID {
			f.Method = UnknownID
		}
		// Nearly always the child is the next node: a new stack's nodes follow
		// each other.
		if next := m.at(v + 1); next.parent == v && next.method == f.Method && next.offset == site {
			v++
		} else {
			v = m.branch(node{site, f.Method, v})
		}
		stack[i], path[i] = f, v
		site = f.Offset
	}
}

// count counts the sample itself; leaf is the node of its innermost frame.
func (m *Map) count(s *Sample, leaf NodeID) {
	if at := s.Frames[0].Offset; at != NoOffset {
		leaf = m.child(node{at, NoMethod, leaf})
	}
	c := m.admit(Counters{Samples: 1, Time: s.Weight})
	m.columns.add(leaf, c)
	if m.recent.on() {
		m.recent.follow(s.Time)
		m.recent.add(leaf, weights{float64(c.Samples), float64(c.Time)})
	}
}

// countActivations counts one call of each of the innermost fresh frames.
func (m *Map) countActivations(path []NodeID, fresh int) {
	fresh = int(admit(&m.total.Activations, int64(fresh)))
	for _, n := range path[len(path)-fresh:] {
		m.columns.addActivation(n)
	}
}

// fresh returns how many of the innermost frames of a stack of that depth are activations
// that s is the first sample to find. s has walked some of the frames. If the source has
// marks, it has counted the new ones. Without marks they are the frames that are certainly new: the frames
// beyond the known ones, if the thread's last stack is aligned with this one. It is
// aligned if it was not forgotten and begins at the same frame.
func (m *Map) fresh(s *Sample, walked, known, depth int, aligned bool) int {
	if n := int(s.Fresh); n >= 0 && n <= walked {
		if s.Truncated && n == walked {
			m.inexact = true // the frames cut off may have been new as well
		}
		return n
	}
	m.inexact = true
	switch {
	case s.Top == TopRepeated:
		return 0
	case aligned && known < depth:
		return depth - known
	case s.Top == TopNew:
		return 1
	}
	return 0
}
