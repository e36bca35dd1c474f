package rewrite

import "sort"

// IsCopied tells whether a byte of the rewritten code stood in the original,
// and not at a place where something was inserted.
func (m *Module) IsCopied(offset uint64) bool {
	i := sort.Search(len(m.spans), func(i int) bool { return uint64(m.spans[i].at) > offset }) - 1
	return i >= 0 && m.spans[i].original&inserted == 0
}
