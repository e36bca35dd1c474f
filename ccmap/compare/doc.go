// Package compare says how far two profiles agree, how far they could, and what
// changed between them: the overlap of their Call Context Maps (Arnold and Ryder's
// measure; Chilingarova and Safonov, ".NET Technologies 2006", section 5),
// correlations of their method totals, the coverage of their hot edges, what noise
// makes of an overlap, without which it cannot be read, and a verdict ([Compare]);
// and the methods, edges and contexts that changed, with the significance of each
// ([Differences]).
//
// Overlap is the sum, over all counters of the two maps, of the smaller of the
// counter's two weights; a weight is the counter's value divided by the sum of
// all values of its map. A map that holds stacks of depth d has d²/2 counters
// for each. They are never written out:
//
//  1. Both tries of stacks are laid over each other (union.go; what either profile
//     counted there: side.go).
//  2. Nodes in a row that must have the same value are one (stretch.go).
//  3. The nodes are sorted by the path from them up to the root, read as a
//     word of edges (order.go). Every counter of a path of two methods or more is
//     then a run of neighbours: the nodes at which that path ends.
//  4. Runs that differ only in the length of their path have the same nodes,
//     hence the same values: one step on a stack answers for all of them (runs.go).
//  5. The smaller weight is found by comparing products of whole numbers, and
//     numerators are summed whole (overlap.go). The one rounding is the last: the
//     result is the float64 nearest to the exact fraction.
//  6. The same is measured again for halves of each profile (floor.go), and for
//     profiles dealt out of the samples of both (deal.go, noise.go). Both toss a
//     coin for each sample that is a witness of its own (coin.go, evidence.go). The
//     verdict compares the three (verdict.go).
//  7. Where profiles differ, the runs with the largest differences are named:
//     each is a family of contexts, and together they make up all of it
//     (families.go).
//
// This takes O(n log n) time and O(n) space for n nodes in the union, however
// deep the stacks are and however recursive.
//
// [Differences] takes steps 1 and 2 as well. Then it counts every method, edge and
// context once for a sample (tally.go), tests the counts (binomial.go), and corrects
// for how many tests there were (holm.go, changes.go).
//
// A pruned map has totals of methods and edges that are exact, and contexts that
// are lower bounds. Methods and edges are compared by these totals, contexts by
// those that were kept: what hangs at [ccmap.PrunedName] counts for its caller. The
// verdict is then by the edges.
//
// Methods are the same in both maps if their Name and Signature are. Positions
// of innermost frames are no part of a path: what was counted on a line counts
// for its method. All functions only read the snapshots and may be called from
// any goroutine.
package compare
