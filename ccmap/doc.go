// Package ccmap holds the vocabulary of the profiler and its Call Context Map.
//
// The Call Context Map (CC-Map; Chilingarova and Safonov, ".NET Technologies
// 2006", section 3) has a total for every method, for every call site and
// callee, and for every call in every context: it is the weighted set of all
// contiguous sub-paths of all sampled stacks. Here only the trie of the full
// stacks is stored, and the rest is derived from it, exactly and on demand:
//
//  1. A [Sample] is a stack of [Frame]s, innermost first, with its thread, the
//     time it stands for and the number of its frames that are new activations.
//  2. Methods are named once, in a table of [Names]; a [MethodID] is an index
//     into it. Pseudo methods, such as [UnknownID], have the same ids in every table.
//  3. [Map.Fold] adds a sample to the trie. One goroutine, the writer, folds.
//  4. [Map.Snapshot] gives any number of readers a frozen [Snapshot].
//  5. A map that outgrows its bounds prunes itself ([Options].MaxBytes): it removes
//     the contexts of least weight and goes on.
//  6. Views over a snapshot bear the paper's names: [MethodProfile], [CallSite]
//     and [Callee] are totals in any context; [CallSiteRef] and [CalleeRef] are
//     one call in one context. [Snapshot.Ref] counts any sub-path.
//
// # What is exact
//
// As long as nothing was pruned, everything is. After that ([Snapshot.Pruned]):
//
//   - [Snapshot.Total] remains exact, as do the totals of methods and edges: Total,
//     Cumulative, Self and Lines of [MethodProfile]; Total of [CallSite] and of
//     [Callee]; [Snapshot.Ref] of one or two methods. The counts that removed
//     contexts had for them are kept as evicted counters ([PrunedEdge],
//     [PrunedMethod]).
//   - Longer contexts are lower bounds: [Snapshot.Inclusive] of a node,
//     [CalleeRef], [CallSiteRef] and longer paths in Ref. Their missing counts hang
//     at [PrunedName] somewhere above.
//   - [PrunedName] is a frame like any other, but it has no Self: its samples count
//     for the methods where they were taken. So the Self of all methods adds up to
//     the Total of the snapshot.
//
// # Profile points
//
// Beside the trie a map keeps [Point]s. A source counts them at one position of a
// method, in any context or after up to three callers: for example the methods that
// an interface call has reached. They are not folded but given ([Map.SetPoints],
// [Map.AddPoint]), count for no total of the map, do not decay, and stay when the map
// is pruned. [Snapshot.Points] returns them by phase of the program; [SumPhases] adds
// the phases up.
//
// # Hot ever and hot now
//
// Every node counts twice if there is a window ([Options].Window): for the whole
// run, and with a weight that falls by a factor of e for every Window that passes.
// [Snapshot.Recent] returns the recent counts as a snapshot like any other.
//
// Of this module, package ccmap imports only its own internal/tree; the other packages
// use its vocabulary.
package ccmap
