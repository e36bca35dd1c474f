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
// have changed since, or looks up the whole stack. It completes a partial sample from
// the last stack. If the thread is not remembered, or its stack does not have that
// method at that depth, then the sample is an orphan: it is folded like a truncated
// one and counted in [Loss.Orphaned].
//
// The window's clock follows the samples' Time. Threads may deliver a sample of a
// time before the clock's: it counts as one of now.
//
// Other bad samples: one without frames is dropped and counted in
// [Loss.Corrupt]; a method that Names does not hold, or [PrunedName], is [UnknownName];
// Fresh out of range is FreshUnknown; a negative weight is 0; Depth in a truncated
// sample is ignored.
func (m *Map) Fold(s *Sample) {
	id := m.stackID(s)
	m.fold(s, id, m.stacks.find(id))
}

// FoldBatch folds samples in their order. It finds the known stacks of a few samples together, to wait
// for memory once.
func (m *Map) FoldBatch(ss []Sample) {
	for few := range slices.Chunk(ss, maxDue) {
		var ids [maxDue]stackID
		var found [maxDue]NodeID
		for i := range few {
			ids[i] = m.stackID(&few[i])
		}
		for i := range few {
			found[i] = m.stacks.find(ids[i])
		}
		generation := m.generation
		for i := range few {
			if found[i] == 0 || generation != m.generation {
				found[i] = m.stacks.find(ids[i])
			}
			m.fold(&few[i], ids[i], found[i])
		}
	}
}

// stackID returns the id of a sample's stack. Only a whole stack has one.
func (m *Map) stackID(s *Sample) stackID {
	if s.Depth != 0 || s.Truncated || len(s.Frames) > maxKnownDepth {
		return stackID{}
	}
	return m.stacks.id(s.Frames)
}

// fold counts one sample. The node n is where samples of its stack count, 0 if that is not known.
func (m *Map) fold(s *Sample, id stackID, n NodeID) {
	if len(s.Frames) == 0 {
		m.meta.Loss.Corrupt++
		return
	}
	t := m.last.of(s.Thread, s.Goroutine)
	fresh := int(s.Fresh)
	if n != 0 && isMarked(s) {
		m.recall(t, s.Frames, n)
	} else {
		fresh = m.follow(t, s, id, n)
	}
	m.count(s, t.node)
	m.countActivations(t.node, fresh)
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

// recall makes a known stack the last one of its thread.
func (m *Map) recall(t *lastStack, frames []Frame, n NodeID) {
	if len(frames) > len(t.buffer) {
		m.last.resize(t, 0, len(frames))
	}
	t.frames = t.buffer[len(t.buffer)-len(frames):]
	copy(t.frames, frames)
	t.cut, t.node, t.generation = false, n, m.generation
}

// follow makes the stack of a sample the last one of its thread, and compares it with the one before. It
// walks a stack that is not known, whose node n is 0. It returns how many of its innermost frames are new
// activations.
//
// A stack becomes known when it is walked for the second time: many stacks come only once.
func (m *Map) follow(t *lastStack, s *Sample, id stackID, n NodeID) (fresh int) {
	aligned := !t.cut && (len(t.frames) > 0 || !m.last.forgot)
	base, frames := m.base(t, s)
	kept := t.common(base, frames)
	same := kept
	if kept == 0 && m.names.Labelled() {
		same = m.sameCalls(t, frames)
	}
	if n != 0 {
		m.recall(t, frames, n)
	} else {
		nodes := m.nodes.len
		valid := m.walk(t, kept, base, s, frames)
		if id != (stackID{}) && valid && m.nodes.len == nodes {
			m.stacks.remember(id, t.node, m.roomForStacks)
		}
	}
	return m.fresh(s, len(frames), same, len(t.frames), aligned && !t.cut)
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

// roomForStacks returns the bytes that the slots of known stacks may take: a part of the memory of
// nodes, or a little in a small map, and no more than the budget has left. A chunk stays
// free, for all that grows in steps too small for size.
func (m *Map) roomForStacks() int64 {
	left := max(m.outgrown-m.Bytes()-m.chunkBytes(), 0)
	share := max(int64(len(m.nodes.chunks))*m.chunkBytes()/knownShare, knownBytes)
	return min(share, slotBytes(len(m.stacks.slots))+left)
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

// parent returns the parent of a node. Mostly the parent is the node before it: the processor guesses
// that, and goes on without waiting for memory.
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
	copy(stack, frames)
	valid = m.makeValid(stack)
	for i := len(stack) - 1; i >= 0; i-- {
		// Nearly always the child is the next node: a new stack's nodes follow
		// each other.
		f := stack[i]
		if next := m.at(v + 1); next.parent == v && next.method == f.Method && next.offset == site {
			v++
		} else {
			nodes := m.nodes.len
			if v = m.branch(node{site, f.Method, v}); uint32(v) == nodes {
				return m.extend(stack[:i+1]), valid
			}
		}
		site = f.Offset
	}
	return v, valid
}

// makeValid replaces methods that no frame may have by UnknownID, and reports whether there were none.
func (m *Map) makeValid(stack []Frame) (valid bool) {
	limit := m.names.Len()
	valid = true
	for i := range stack {
		if f := &stack[i]; int64(f.Method) >= int64(limit) || f.Method == PrunedID {
			f.Method, valid = UnknownID, false
		}
	}
	return valid
}

// extend adds the nodes of frames inside the outermost one, whose node is the last one. It returns the
// last node then.
func (m *Map) extend(stack []Frame) NodeID {
	v := NodeID(m.nodes.len - 1)
	for i := len(stack) - 1; i > 0; {
		room := m.nodes.from(v+1, v+1+NodeID(i))
		for j := range room {
			room[j] = node{stack[i].Offset, stack[i-1].Method, v}
			v++
			i--
		}
		if m.nodes.len = uint32(v) + 1; m.nodes.len&chunkMask == 0 {
			m.addChunk()
		}
	}
	return v
}

// dueCount is a count of a sample that is not in the columns yet.
type dueCount struct {
	node    NodeID
	samples uint32
	time    int64
}

// maxDue is enough to wait for all of them together.
const maxDue = 16

// count counts the sample itself at a node. The nodes of the samples lie far apart in memory: a few
// samples, counted in a row, wait for it together.
func (m *Map) count(s *Sample, n NodeID) {
	c := m.admit(Counters{Samples: 1, Time: s.Weight})
	if m.tell != nil {
		m.tell(Moment{Time: s.Time, Path: m.ids.of(m, n), Weight: c.Time})
	}
	if m.recent.isBehind(s.Time) {
		m.Advance(s.Time)
	}
	m.due[m.dues] = dueCount{n, uint32(c.Samples), c.Time}
	if m.dues++; m.dues == maxDue {
		m.countDue()
	}
}

// countDue counts the samples that are due. Code that reads columns, changes ids of nodes or moves the
// window's clock calls it first.
func (m *Map) countDue() {
	for _, d := range m.due[:m.dues] {
		m.columns.addSamples(d.node, d.samples, d.time)
	}
	if m.recent.on() {
		for _, d := range m.due[:m.dues] {
			m.recent.add(d.node, weights{float64(d.samples), float64(d.time)})
		}
	}
	m.dues = 0
}

// countActivations counts one call of each of the innermost fresh frames of a stack that
// counts at node n.
func (m *Map) countActivations(n NodeID, fresh int) {
	fresh = int(admit(&m.total.Activations, int64(fresh)))
	if fresh == 0 {
		return
	}
	n = m.frameNode(n)
	for fresh > 0 {
		n, fresh = m.columns.addActivations(&m.nodes, n, fresh)
	}
}

// isMarked reports whether the source of a sample has counted its new activations.
func isMarked(s *Sample) bool { return s.Fresh >= 0 && int(s.Fresh) <= len(s.Frames) }

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
