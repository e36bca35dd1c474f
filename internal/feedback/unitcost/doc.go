// Package unitcost says what a change of a program has done to the CPU time for a unit of its work,
// and how sure that is.
//
//	process's CPU clock ─┐
//	units of work ───────┴▶ Period, Period, …  (of both programs, at the same times) ─▶ Compare ─▶ Result
//
// [Compare] takes these steps:
//
//  1. The effect is the ratio of two ratios: all CPU time over all units, after and before. Samples
//     are not used.
//  2. Periods follow each other, and load comes in waves. So blocks of neighbours are resampled
//     (Politis and Romano's circular block bootstrap, 1992). A block has periods of both programs:
//     what the machine does to both at once cancels.
//  3. A block has a tenth of the periods. The deviation is corrected for the correlations across
//     the bounds of blocks, as an autoregressive process of order 1 has them.
//  4. The interval is that of Student's distribution, with as many degrees of freedom as there are
//     blocks, less one.
//
// [ReadCounter] reads a count of units from a page of metrics.
//
// Nothing here keeps state, and all functions may be called from any goroutine.
package unitcost
