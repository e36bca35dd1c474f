// Package compare says how far two profiles agree, and how far they could: the
// overlap of their Call Context Maps (Arnold and Ryder's measure; Chilingarova
// and Safonov, ".NET Technologies 2006", section 5), correlations of their
// method totals, the coverage of their hot edges, and the noise floor of each,
// without which an overlap cannot be read.
//
// Overlap is the sum, over all counters of the two maps, of the smaller of the
// counter's two weights; a weight is the counter's value divided by the sum of
// all values of its map. A map that holds stacks of depth d has d²/2 counters
// for each. They are never written out:
//
//  1. Both tries of stacks are laid over each other (union).
//  2. The nodes are sorted by the path from them up to the root, read as a
//     word of edges (order). Every counter of a path of two methods or more is
//     then a run of neighbours: the nodes at which that path ends.
//  3. Runs that differ only in the length of their path have the same nodes,
//     hence the same values: one step on a stack answers for all of them.
//  4. The smaller weight is found by comparing products of whole numbers, and
//     numerators are summed whole. The one rounding is the last: the result is
//     the float64 nearest to the exact fraction.
//
// This takes O(n log n) time and O(n) space for n nodes in the union, however
// deep the stacks are and however recursive.
//
// Methods are the same in both maps if their Name and Signature are. Positions
// of innermost frames are no part of a path: what was counted on a line counts
// for its method. All functions only read the snapshots and may be called from
// any goroutine.
package compare
