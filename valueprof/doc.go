// Package valueprof counts the values that a variable takes, at the cost of a
// counter (OpenJ9, "Value JProfiling"). ccmapd counts the targets of calls, and
// reads them as profile points of package ccmap.
//
//  1. A [Table] counts N values one by one, and all other values together. A
//     [Hash] says how a value finds its counter.
//  2. A [Profile] has a profile point for each call site. A point with more than
//     two values has a table. Counts that leave the table stay with the point, by
//     value.
//  3. A [Cell] is a point alone, of a VM that counts itself.
//  4. The janitor of the profile looks at tables that had no slot for a value,
//     and makes room as its [Policy] says.
//
// One goroutine counts, runs the janitor and reads. In ccmapd the manager owns a
// profile of the calls that were caught since its last look for a drift, and keeps
// copies of the points.
package valueprof
