package rewrite

import "sort"

// forward maps offsets in the original's code section to offsets in the
// rewritten one. It is monotone, and exact at the starts and ends of functions
// and of instructions.
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

// address moves an address of code. Addresses beyond all code, with which
// linkers mark what they have removed, are kept in their order.
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
