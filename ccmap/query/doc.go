// Package query counts paths of calls in a Call Context Map, exactly.
//
// A path is a chain of direct calls, "A > B > C", from the caller to the callee. It
// occurs wherever its methods follow each other on a stack, whatever is above and
// below them. The steps from a text to its count:
//
//  1. [ParsePath] reads a [Path]: names of methods, each with the line or the offset
//     of its call if that matters.
//  2. [New] looks up the methods of each element in a snapshot. It is given a
//     [Finder]: [Named] takes a name or the unique end of one, [Matching] a regular
//     expression. A name that stands for no method, or for several, is an error
//     that lists the names that could have been meant.
//  3. [Query.Count] passes over the snapshot and returns a [Result]: the counters of
//     the path, and of the calls one step above and below it.
//
// [Contexts] answers the reverse question: by which chains of callers is a method
// reached? [Outermost] and [Callers] are the walks that both are made of.
//
// # What is exact
//
// All counters are exact as long as no context was pruned. After that, paths of one and
// two methods are still exact, because a pruned map keeps its totals by method and by
// edge. Longer paths, and single contexts, are lower bounds. Result.LowerBound and
// Result.DistinctLowerBound say which.
//
// A snapshot never changes, so any goroutine may call any function of this package.
package query
