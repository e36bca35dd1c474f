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
func (m *Map) Forget(thread uint64) { m.memos.forget(thread) }

// forget makes the memo of a thread a spare one.
func (ms *memos) forget(thread uint64) {
	if t := ms.byThread[thread]; t != nil {
		ms.release(t)
	}
}
