//go:build !amd64

package valueprof

// usePext is false: the processor has no PEXT, and nothing below is called.
const usePext = false

func pext(v, mask uint64) uint64 { return gather(v, mask) }

func hitPext(*Table, uint64) bool { return false }
