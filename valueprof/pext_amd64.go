package valueprof

import "github.com/klauspost/cpuid/v2"

// usePext: the processor has the instruction, and is fast at it.
var usePext = pextIsFast(&cpuid.CPU)

// pext gathers the bits of v that mask selects into the low bits, as the
// instruction PEXTQ does.
//
//go:noescape
func pext(v, mask uint64) uint64

// hitPext is [Table.Hit] for a table that uses HashPext, in one call: the parts
// of it around a call of pext alone cost as much again.
//
//go:noescape
func hitPext(t *Table, v uint64) bool
