package rewrite

import "sort"

// span is a run of code in the rewritten code section that begins at an offset
// there. It ends where the next begins.
type span struct {
	at uint32
	// original is the offset in the original's code section that at stands for.
	// With the inserted bit all of the span stands for it; else the span was
	// copied, and offsets go on byte by byte.
	original uint32
}

// inserted marks a span of code that the original has not. Modules are smaller
// than 2 GiB, so offsets leave the bit.
const inserted = 1 << 31

// Original finds what an instruction of the rewritten module stands for. offset
// is counted in bytes from the first byte of the code section's contents, as
// wazero's SourceOffsetForPC and DWARF for WebAssembly count. The result is the
// function's index in the original and the offset of the instruction in it,
// counted from the first byte of its code behind the size: its declarations of
// locals. A safe point stands for the instruction that follows, one behind a
// call of an import for the call. It is false for code that was added.
func (m *Module) Original(offset uint64) (function, position uint32, ok bool) {
	i := sort.Search(len(m.spans), func(i int) bool { return uint64(m.spans[i].at) > offset }) - 1
	if i < 0 || i == len(m.spans)-1 {
		return 0, 0, false
	}
	at := m.spans[i].original &^ inserted
	if m.spans[i].original&inserted == 0 {
		at += uint32(offset) - m.spans[i].at
	}
	f := sort.Search(len(m.bodies), func(f int) bool { return m.bodies[f].end > int(at) })
	if f == len(m.bodies) || int(at) < m.bodies[f].start {
		return 0, 0, false
	}
	return uint32(m.Imported + f), at - uint32(m.bodies[f].start), true
}
