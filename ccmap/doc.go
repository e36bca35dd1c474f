// Package ccmap holds the vocabulary of the profiler and its Call Context Map.
//
// The Call Context Map (CC-Map; Chilingarova and Safonov, ".NET Technologies
// 2006", section 3) has a total for every method, for every call site and
// callee, and for every call in every context: it is the weighted set of all
// contiguous sub-paths of all sampled stacks. Here only the trie of the full
// stacks is stored, and the rest is derived from it, exactly and on demand:
//
//  1. A [Sample] is a stack of [Frame]s, innermost first, with the thread it
//     came from, the time it stands for and what is known of its activations.
//  2. Methods are named once, in a table of [Names]; a [MethodID] is an index
//     into it.
//  3. [Map.Fold] adds a sample to the trie. One goroutine, the writer, folds.
//  4. [Map.Snapshot] gives any number of readers a frozen [Snapshot].
//  5. Views over a snapshot bear the paper's names: [MethodProfile], [CallSite]
//     and [Callee] are totals in any context; [CallSiteRef] and [CalleeRef] are
//     one call in one context. [Snapshot.Ref] counts any sub-path.
//
// Package ccmap imports no other package of this module; all others speak its
// language.
package ccmap
