package valueprof

import "github.com/klauspost/cpuid/v2"

// usePext says that the processor has the instruction PEXT and is fast at it.
var usePext = pextIsFast(&cpuid.CPU)

// pext gathers the bits of v that mask selects into the low bits, as the
// instruction PEXTQ does.
//
//go:noescape
func pext(v, mask uint64) uint64

// hitPext is [Table.Hit] for a table that uses HashPext, in one call. A call of pext
// and the rest in Go cost twice as much.
//
//go:noescape
func hitPext(t *Table, v uint64) bool
