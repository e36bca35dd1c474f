// Package compare says how much two profiles agree, how much they could, and what
// changed between them. [Compare] returns the overlap of their Call Context Maps
// (Arnold and Ryder's measure; Chilingarova and Safonov, ".NET Technologies 2006",
// section 5), the correlations of their method totals, the coverage of their hot edges,
// the effect of noise, which is needed to read an overlap, and a verdict. [Differences]
// returns the methods, edges and contexts that changed, with the significance of each.
//
// Overlap is the sum, over all counters of the two maps, of the smaller of the
// counter's two weights; a weight is the counter's value divided by the sum of
// all values of its map. A map that holds stacks of depth d has d²/2 counters
// for each. They are never written out:
//
//  1. Both tries of stacks are laid over each other, with the counts of each
//     profile.
//  2. Nodes in a row that must have the same value form a compressed path.
//  3. The nodes are sorted by the path from them up to the root, read as a
//     word of edges. Every counter of a path of two methods or more is
//     then a run of neighbours: the nodes where that path ends.
//  4. Runs that differ only in the length of their path have the same nodes,
//     hence the same values: one step on a stack covers them all.
//  5. The smaller weight is found by comparing products of whole numbers, and
//     numerators are summed as whole numbers. Only the last step rounds: the
//     result is the float64 nearest to the exact fraction.
//  6. The same is measured again for halves of each profile ([Floors]), and for
//     profiles resampled from the samples of both. Both assign each
//     independent sample at random. The verdict compares the
//     three ([Verdict]).
//  7. Where profiles differ, the runs with the largest differences are named: each is a
//     family of contexts ([Family]), and together they make up the whole difference.
//
// This takes O(n log n) time and O(n) space for n nodes in the union, however
// deep the stacks are and however recursive.
//
// [Differences] takes steps 1 and 2 as well. Then it counts every method, edge and
// context once for a sample, tests the counts by a binomial test, and corrects
// for the number of tests (Holm's procedure).
//
// In a pruned map the totals of methods and edges are exact, and the counts of contexts
// are lower bounds. Methods and edges are compared by these totals, contexts by the
// kept ones: the counts that hang at [ccmap.PrunedName] count for its caller. The
// edges then decide the verdict.
//
// Methods are the same in both maps if their Name and Signature are. Only where one of the
// profiles names no system call, all of [ccmap.KernelName] is one method, and only where
// one of them has the kernel's functions, these count for their system call. Positions
// of innermost frames are not part of a path: counts of a line count for its method.
// The samples of all labels count together ([ccmap.Snapshot.WithoutLabels]).
// All functions only read the snapshots, and any goroutine may call them.
package compare
