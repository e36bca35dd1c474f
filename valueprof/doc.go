// Package valueprof counts which values a variable takes, here the receivers
// and targets of calls, at the cost of a counter (OpenJ9, "Value JProfiling" and
// "Persistent Profile Info"). It imports nothing of this module.
//
//  1. A [Table] holds the counts of N values and of all the others together. It
//     has one owner and no lock. A [Hash] says how a value finds its counter.
//  2. A [Profile] has the profile points of methods, a table for each that sees
//     more than two values. What it records lies in an [Info]; a [History] tells
//     the best of a method from the recent, and [Accessed] holds what a reader uses.
//  3. The [Janitor] looks at tables that values find no slot in, as its [Policy]
//     has it, and frees the infos that nobody refers to.
//
// ccmapd has one goroutine that counts, tends and reads: its manager owns a profile
// of the calls that were caught.
package valueprof
