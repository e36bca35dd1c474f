// Package perf samples a running Go process from outside, through
// perf_event_open(2). The process is neither changed nor restarted.
//
// [Open] attaches and [Source.Run] goes through these steps:
//
//  1. Every thread of the target has one event on every CPU, with a period in
//     nanoseconds of CPU time. The kernel writes samples (registers, call chain,
//     a piece of stack) and the births and ends of threads into rings, two per CPU:
//     one wakes the drainer for every record, the other, for intervals under a
//     millisecond, does not interrupt the target for that.
//  2. The drainer, one goroutine, wakes up at most twice in a millisecond and
//     handles the records of all rings in the order of their times. A new thread
//     is attached at once.
//  3. A stack is unwound: the kernel's chain with its first caller repaired from
//     the Go symbol table; by SP deltas through the piece of stack where that does
//     not reach a root; over calls into C with what the runtime saved. What does
//     not reach a root then is marked as truncated.
//  4. The goroutine is told from register R14, which holds its descriptor's
//     address.
//  5. A verdict is given whether the innermost activation is the one of the
//     goroutine's last sample: by comparing the two stacks and, where they are
//     alike, by a hardware watchpoint on the return address, which any new call
//     writes.
//  6. Addresses become methods and lines, inlined calls included, and the sample
//     is pushed into the queue.
//
// # Calls caught
//
// A sample shows what runs, not what an interface held: the type that embeds a
// promoted method, and the type arguments of a generic one, are known to a wrapper
// only, and wrappers are gone when the sample is taken. So the drainer also catches
// calls, in bursts, at the indirect calls that samples have on their stacks. Package
// internal/indirect finds these calls and their turns. A burst sets a hardware breakpoint
// on one or two threads, for 32 calls each or 8 ms, in the debug register that the
// watchpoints leave. For each call the kernel writes the register that holds the address,
// and the return addresses along the frame pointers. Each becomes a sample with Hit set:
// the method that is reached, wrappers included; the call site as the samples have it,
// inlined calls included; the callers. An address that is no function of the symbol table
// is dropped and counted.
//
// A caught call costs the target 15 to 18 µs in a virtual machine (Xeon, Linux
// 6.18), where an access to a debug register leaves the guest, and setting a
// breakpoint and closing it as much (BenchmarkBurst). Measured in pairs of runs,
// all included, it was 18 µs a call: the default budget of 250 calls a second is
// 0.45 % of one core. Setting breakpoints is paid for with that budget, and bursts
// that catch little count as 16 calls: about 200 calls a second are left of it
// where a target uses one core.
//
// Calls caught are counts of calls, and say nothing of CPU time. They are pushed
// when their burst is over, behind samples that are younger. Those of one burst
// follow on each other on a thread: they are no independent choice, and begin more
// often behind a call that takes long. Between threads the choice is by how often
// each was sampled at the site, between copies of an inlined call by how hot each
// is, and not by how often they call.
//
// A call that is never on a sampled stack, because what it calls is short and
// rare, is not caught; nor is one in assembly, in a wrapper, in the runtime or in
// C, nor any in a program built with -spectre=ret, which calls by way of a thunk.
// An interface that holds a T and one that holds a *T reach the same wrapper,
// (*T).M, where M is declared for T and T is not a pointer itself: the two cannot
// be told apart.
//
// # What a sample says
//
// Its Time is that of CLOCK_MONOTONIC at the interrupt, its Weight the period
// that its event had then. Each event draws its own, 5 to 30 % off the interval,
// and another one every 16 samples, so that sampling does not run in lockstep with
// periodic work; the sample after that stands for the discarded time, too.
// An event's first sample, and the first one at another interval, comes after a
// random part of the period and stands for all of it. Fresh is 0 where Top is
// TopRepeated and unknown otherwise: there is a mark for the innermost activation
// only, so that maps made of these samples count activations as lower bounds.
//
// # Limits
//
// A call between the sample that a watchpoint was set for and the setting of it
// is missed; one between a sample and the reading of the watchpoint counts. Both are
// at most a sixth of the interval, since a sample that is drained later has no
// verdict. A new thread runs some 100 µs before it is sampled and watched.
// When a goroutine's stack was moved there is no verdict. Samples taken while
// the runtime grows a goroutine's stack (runtime.morestack) are truncated there:
// the frame pointer is cleared, and what was saved of the goroutine is
// overwritten microseconds later.
//
// An event counts the time of one thread on one CPU, and runs on where it left
// off when the thread comes back: two samples of a thread that moves between
// CPUs can be closer than the interval, or farther apart. Their number is right.
//
// The Go callers of C stand on another stack than C does, which is read after the
// sample, within 1 ms or so, unless frame pointers lead to them. If the goroutine is
// then in a call of the same C function at the same depth, its callers are taken, so
// a sample of one call can get the callers of the next such call, where two paths of
// equal depth lead to the same C function. If not, the goroutine's last sample in
// such a call, at most a second old, lends its callers (Stats.Recalled; over 5 % of
// all samples it is a warning); without one the stack is truncated.
// C functions without call frame information and frame pointer, such as
// hand-written assembly, hide the C functions that have called them: one frame
// [unknown] stands for those, between the innermost function and Go. So it does for
// the Go function that has called the race detector, where that function has returned
// before its stack was read; where it has not, its line is that of a later call.
//
// A goroutine's number is read after the sample: it may be that of the next
// goroutine which the runtime has put into the same descriptor.
//
// Threads times CPUs is the number of file descriptors used, and two for every
// CPU; watchpoints take one more each for every thread, while there are enough, and
// a burst up to two.
// Threads beyond the limit are not sampled, which is logged once and is a warning
// in [sampler.Stats].
//
// # Time that no sample stands for
//
// A thread that ends before its first sample leaves no trace, nor does time in
// which this process was stopped and the rings were full. So the weights of all
// samples are held against the CPU clock of the target, which has no such gaps:
// [ccmap.Loss]. It is read with each hand-over, every 50 ms at most, and at the
// end. When the target ends and its parent has waited for it, the clock is gone;
// then the last reading stands. Stolen time of a virtual machine is not on the
// clock, where the kernel knows of it (CONFIG_PARAVIRT_TIME_ACCOUNTING), but in
// samples, and makes the difference negative.
//
// Where samples leave out time in the kernel, so does the clock. The kernel tells
// the two apart once a tick (CONFIG_TICK_CPU_ACCOUNTING), so this is a sample, too;
// [ccmap.Loss.ClockTick] says how coarse.
//
// Facts about the kernel were found on Linux 6.18, about the runtime in Go 1.26;
// the target's own Go version decides over what package gosym knows of it.
package perf
