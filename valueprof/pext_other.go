//go:build !amd64

package valueprof

// usePext is false where there is no such instruction: nothing below is called.
const usePext = false

func pext(v, mask uint64) uint64 { return gather(v, mask) }

func hitPext(*Table, uint64) bool { return false }
