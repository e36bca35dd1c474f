// Package workload is a program worth sampling: what ccmapd demo attaches to,
// and what the tests take as ground truth.
//
// In mode server it is a small concurrent server under the load of its own
// clients. Requests are JSON over pipes in memory, so it needs no network; each
// gets a goroutine and goes to one of four services:
//
//	eval    parses and evaluates a formula: recursion, a megamorphic interface
//	area    sums the areas of shapes: an interface with two types, 3 to 1
//	words   counts words: generics, maps, sorting
//	queens  places queens on a board: deep recursion, inlined helpers
//
// The other modes are one thing each: spin calls a function that takes a given
// CPU time, over and over; deep recurses; goroutines and threads have many of
// either. All are deterministic but for the schedule: the same number of
// requests makes the same calls, which a [Truth] counts.
package workload
