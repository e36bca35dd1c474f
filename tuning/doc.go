// Package tuning decides how long the interval between two samples of a thread
// should be. It is pure: no clock, no goroutine, no randomness of its own, and
// the same observations always give the same decisions.
//
// The rule is the paper's (Chilingarova and Safonov, ".NET Technologies 2006",
// section 3.3 and 5): the more often the activation on top of a stack is the
// one that was there at the last sample, the less a sample tells.
//
//  1. The caller reports what happened since its last report as an
//     [Observation].
//  2. Every Window samples the rate of repetitions is looked at. Over High the
//     interval becomes longer, under Low shorter; between them it is right. A
//     threshold counts as crossed only if chance alone would rarely explain it.
//  3. The next interval is the one at which the measured rate would come to lie
//     in the middle between the thresholds, within a bounded factor.
//  4. Once the interval is right, or no better one can be had, the tuner is
//     settled and looks less and less often, until the program changes.
//  5. Once more samples of the same would tell little, because the profile is
//     settled, the interval goes up step by step, within a bounded factor. When
//     the program drifts, or its load jumps up, it is back at once.
//  6. Once a second of load, independent of all that, the cost to the target
//     and to the daemon is held against its budget. It lengthens the interval
//     at once and limits how far repetitions may shorten it. Where repetitions
//     are unknown, an interval that can be afforded again comes back.
//
// Every change comes as a [Decision] with its reason, to be logged and kept.
package tuning
