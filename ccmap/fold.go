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
// have changed since, or looks up the whole stack, and completes a partial sample from the last stack. If the
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
	aligned := !t.cut && (len(t.frames) > 0 || !m.last.forgot)
	base, frames := m.base(t, s)
	kept := t.common(base, frames)
	known := kept
	if kept == 0 && m.names.Labelled() {
		known = m.sameCalls(t, frames)
	}
	if isWhole(s) && len(frames)-kept > fewFrames {
		m.lookUp(t, kept, s)
	} else {
		m.walk(t, kept, base, s, frames)
	}
	m.count(s, t.node)
	m.countActivations(t.node, m.fresh(s, len(frames), known, len(t.frames), aligned && !t.cut))
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
	if t.cut && slices.Equal(labels, m.names.labelsOf(t.frames)) {
		return
	}
	t.clear()
	m.last.resize(t, 0, 1+len(labels))
	t.frames[0].Method = TruncatedID
	copy(t.frames[1:], labels)
	v := NodeID(0)
	for i := range slices.Backward(t.frames) {
		t.frames[i].Offset = NoOffset
		v = m.child(node{NoOffset, t.frames[i].Method, v})
	}
	t.cut, t.node, t.generation = true, v, m.generation
}

// fewFrames are walked faster than a whole stack is looked up.
const fewFrames = 8

// isWhole reports whether a sample has the whole stack, and few enough frames to look it up.
func isWhole(s *Sample) bool {
	return s.Depth == 0 && !s.Truncated && len(s.Frames) <= maxKnownDepth
}

// lookUp makes a whole stack the last one of its thread. It walks a stack that is not known.
// A stack becomes known when it is walked for the second time: many stacks come only once.
func (m *Map) lookUp(t *lastStack, kept int, s *Sample) {
	id := m.stacks.id(s.Frames)
	if n := m.stacks.find(id); n != 0 {
		m.last.resize(t, 0, len(s.Frames))
		copy(t.frames, s.Frames)
		t.node, t.generation = n, m.generation
		return
	}
	before := m.nodes.len
	if valid := m.walk(t, kept, 0, s, s.Frames); valid && m.nodes.len == before {
		m.stacks.add(id, t.node, m.roomForStacks)
	}
}

// roomForStacks returns the bytes that the slots of known stacks may take: a part of the memory of
// nodes, and no more than the budget has left. A chunk stays free, for all that grows in steps too
// small for size.
func (m *Map) roomForStacks() int64 {
	left := max(m.outgrown-m.Bytes()-m.chunkBytes(), 0)
	return min(int64(len(m.nodes.chunks))*m.chunkBytes()/knownShare, slotBytes(len(m.stacks.slots))+left)
}

// walk makes a stack the last one of its thread. It finds or adds the nodes of its frames, except
// the outermost kept ones, and the node of its position. The given frames lie inside base others.
// It reports whether all their methods are valid.
func (m *Map) walk(t *lastStack, kept, base int, s *Sample, frames []Frame) bool {
	v, depth := m.keptNode(t, kept), base+len(frames)
	m.last.resize(t, kept, depth)
	v, valid := m.descend(t, v, frames[:depth-kept])
	if at := s.Frames[0].Offset; at != NoOffset {
		v = m.child(node{at, NoMethod, v})
	}
	t.node, t.generation = v, m.generation
	return valid
}

// keptNode returns the node of the innermost of the kept frames of a last stack. It goes up from
// the stack's node, or down from the root if that is nearer or pruning has changed the ids of nodes.
func (m *Map) keptNode(t *lastStack, kept int) NodeID {
	if t.generation == m.generation && kept > len(t.frames)/2 {
		v := m.frameNode(t.node)
		for range len(t.frames) - kept {
			v = m.parent(v)
		}
		return v
	}
	v, site := NodeID(0), NoOffset
	for _, f := range slices.Backward(t.frames[len(t.frames)-kept:]) {
		v, site = m.child(node{site, f.Method, v}), f.Offset
	}
	return v
}

// parent returns the parent of a node, mostly the node before it. The processor guesses that, and
// goes on without waiting for memory.
func (m *Map) parent(n NodeID) NodeID {
	if m.nodes.chained(n) {
		return n - 1
	}
	return m.at(n).parent
}

// frameNode returns the node of a frame, given its own or the node of a position in it.
func (m *Map) frameNode(n NodeID) NodeID {
	if m.nodes.isPosition(n) {
		return m.at(n).parent
	}
	return n
}

// descend finds or adds the nodes of the frames that are new in a last stack, below node v, and writes
// the frames to it. It returns the node of the innermost frame, and whether all methods are valid.
func (m *Map) descend(t *lastStack, v NodeID, frames []Frame) (leaf NodeID, valid bool) {
	stack, site := t.frames[:len(frames)], NoOffset
	if len(frames) < len(t.frames) {
		site = t.frames[len(frames)].Offset
	}
	limit := m.names.Len()
	valid = true
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		if int64(f.Method) >= int64(limit) || f.Method == PrunedID {
			f.Method, valid = UnknownID, false
		}
		// Nearly always the child is the next node: a new stack's nodes follow
		// each other.
		if next := m.at(v + 1); next.parent == v && next.method == f.Method && next.offset == site {
			v++
		} else {
			v = m.branch(node{site, f.Method, v})
		}
		stack[i], site = f, f.Offset
	}
	return v, valid
}

// count counts the sample itself at a node.
func (m *Map) count(s *Sample, n NodeID) {
	c := m.admit(Counters{Samples: 1, Time: s.Weight})
	m.columns.add(n, c)
	if m.recent.on() {
		m.recent.follow(s.Time)
		m.recent.add(n, weights{float64(c.Samples), float64(c.Time)})
	}
}

// countActivations counts one call of each of the innermost fresh frames of a stack that
// counts at node n.
func (m *Map) countActivations(n NodeID, fresh int) {
	fresh = int(admit(&m.total.Activations, int64(fresh)))
	if fresh == 0 {
		return
	}
	n = m.frameNode(n)
	for range fresh {
		m.columns.addActivation(n)
		n = m.parent(n)
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
