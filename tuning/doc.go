// Package tuning decides how long the interval between two samples of a thread
// should be. It is pure: it has no clock, no goroutine and no randomness, and the same
// observations always give the same decisions.
//
// The caller reports an [Observation] whenever it likes. Three rules read it. Each
// rule keeps its own evidence and wants an interval, and the largest of the three is
// the interval of the session.
//
//   - Repetitions. This is the paper's rule (Chilingarova and Safonov, ".NET
//     Technologies 2006", section 3.3 and 5): the more often a sample finds the same
//     activation on top of the stack as the last sample, the less it tells. The rule
//     judges the rate of repetitions every Window samples. Over High it wants a longer
//     interval, under Low a shorter one. A threshold counts as crossed only if chance
//     rarely explains the rate. The next interval is the one where the rate should be
//     in the middle between the thresholds, within a bounded factor. Once the interval
//     is right, or no better one can be had, the rule rests: it looks less and less
//     often, until the program changes. A rate under 1 % takes 660 verdicts to tell. An
//     engine that judges few samples has them after minutes. So the first step does not
//     wait: after one window the rule wants a quarter of the interval, if the profile is
//     not settled and repetitions were not seen. The budget says how much of that can be
//     afforded, and later verdicts correct it.
//   - Slowdown. Once the profile is settled, more samples of the same tell little. The
//     rule then wants a longer interval, step by step, within a bounded factor. When
//     the program drifts, or its load jumps up, the rule wants nothing at once.
//   - Budget. The rule measures the cost of sampling to the target and to the daemon,
//     once a second of load. It wants the shortest interval within both budgets. It
//     raises this interval at once, and lowers it slowly, with a back-off, so that the
//     interval does not follow a load that comes and goes. Context switches cost the
//     target something, too, at any interval. They leave less of the budget to the
//     samples, but a quarter at least; if they exceed the budget on their own, the rule
//     says so.
//
// Every change of the interval comes as a [Decision] with its reason, for the log and
// for the profile.
package tuning
