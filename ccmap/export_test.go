package ccmap

// PruneTo prunes to about a number of nodes, for maps too small to be short of
// bytes.
func (m *Map) PruneTo(nodes int) {
	p := newPruning(m)
	h := p.histogram()
	p.keepHeaviest(&h, int64(nodes)*m.nodeBytes()+int64(m.table.used)*tableBytes)
	p.apply()
}

// Forget drops what is remembered of a thread, so that its next stack is walked
// from the root.
func (m *Map) Forget(thread uint64) { m.last.forget(thread) }

// forget makes the last stack of a thread a spare one.
func (ls *lastStacks) forget(thread uint64) {
	if t := ls.byThread[thread]; t != nil {
		ls.release(t)
	}
}

// TableEntries returns how many nodes the table holds.
func (m *Map) TableEntries() int { return m.table.used }

// ForgetStacks drops the known stacks, so that the next stack is walked.
func (m *Map) ForgetStacks() { m.stacks.forgetAll() }

// CountDue counts the samples that are due, so that none is counted later than it came.
func (m *Map) CountDue() { m.countDue() }

// KnownStacks returns how many stacks are known, and the bytes of their slots.
func (m *Map) KnownStacks() (n int, bytes int64) {
	return m.stacks.used, slotBytes(len(m.stacks.slots))
}

// MaxKnownDepth is the depth of the deepest stack that has an id.
const MaxKnownDepth = maxKnownDepth

// StackIDs returns a function that returns the hash and the depth of stacks.
func StackIDs(seed uint64) func([]Frame) [2]uint64 {
	k := newStackKeys(seed)
	return func(frames []Frame) [2]uint64 {
		id := k.id(frames)
		return [2]uint64{id.hash, uint64(id.depth)}
	}
}

// Probes returns how many slots of the table a walk of the stack from the root
// looks at. The map must know the stack. It counts on a finished
// map, so that folding needs no counter.
func (m *Map) Probes(frames []Frame) int {
	probes, v, site := 0, NodeID(0), NoOffset
	for i := len(frames) - 1; i >= 0; i-- {
		what := node{site, frames[i].Method, v}
		if *m.at(v + 1) == what {
			v++
		} else {
			n := m.table.find(&m.nodes, what)
			probes += m.table.probes(what, n)
			v = n
		}
		site = frames[i].Offset
	}
	return probes
}

// probes returns how many slots the search for node n looks at.
func (t *table) probes(what node, n NodeID) int {
	tag := t.tag(what)
	want := newSlot(tag, n)
	probes := 1
	p := t.part(tag)
	for i := p.start(tag); p.slots[i] != want; i = (i + 1) % len(p.slots) {
		probes++
	}
	return probes
}
