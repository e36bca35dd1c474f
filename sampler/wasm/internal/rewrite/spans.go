package rewrite

import (
	"sort"
)

// span is a piece of the rewritten code section. It ends where the next begins.
type span struct {
	at uint32
	// original is the offset of at in the original's code section. With the inserted bit
	// all of the span stands for that offset. Without it the span was copied, and offsets
	// go on byte by byte.
	original uint32
}

// inserted marks a span of inserted code. Modules are smaller than 2 GiB, so offsets do
// not use the bit.
const inserted = 1 << 31

// Original finds the origin of an instruction of the rewritten module. offset is counted
// in bytes from the first byte of the code section's contents, as in wazero's
// SourceOffsetForPC and in DWARF for WebAssembly. The result is the function's index in
// the original and the offset of the instruction in it, counted from the first byte of
// its code after the size: its declarations of locals. A safe point stands for the
// instruction that follows. A safe point after a call of an import stands for the call.
// Original is false for added code.
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

// forward maps offsets in the original's code section to offsets in the rewritten one. It
// is monotone, and exact at the starts and ends of functions and of instructions.
type forward []span // the copied spans

func newForward(spans []span) forward {
	f := make(forward, 0, len(spans))
	for _, s := range spans {
		if s.original&inserted == 0 {
			f = append(f, s)
		}
	}
	return f
}

// address moves an address of code. Addresses beyond all code, which linkers give to
// removed code, keep their order.
func (f forward) address(original uint32) uint32 {
	if original >= tombstones {
		return original
	}
	i := sort.Search(len(f), func(i int) bool { return f[i].original > original })
	if i == 0 {
		return original
	}
	moved := uint64(f[i-1].at) + uint64(original-f[i-1].original)
	limit := uint64(tombstones - 1)
	if i < len(f) {
		limit = uint64(f[i].at)
	}
	return uint32(min(moved, limit))
}
