// Package valueprof counts the values that a variable takes, here the targets of
// calls, at the cost of a counter (OpenJ9, "Value JProfiling"). It imports nothing of
// this module.
//
//  1. A [Table] holds the counts of N values and of all the others together. A
//     [Hash] says how a value finds its counter.
//  2. A [Profile] has the profile points of call sites, a table for each that sees
//     more than two values. Counts that leave a table stay with the point, by value.
//  3. The janitor of the profile looks at tables that values find no slot in, and
//     makes room as its [Policy] has it.
//
// One goroutine counts, tends and reads: ccmapd's manager owns a profile of the calls
// that were caught since the last look for a drift, and files its points.
package valueprof
