// Package perf samples a running Go process from outside, through perf_event_open(2). The
// process is neither changed nor restarted.
//
// [Rings] are two rings for every CPU, for all targets together:
//
//  1. [NewRings] names them, and [Rings.Open] attaches to a process. Every thread of the target
//     has one event on every CPU, with a period in nanoseconds of CPU time. The kernel writes samples
//     (registers, call chain, a piece of stack) and the births and ends of threads into the CPU's
//     rings: one wakes the reader for every record, the other, for intervals under a
//     millisecond, does not interrupt the target for that.
//  2. One goroutine, the reader of the rings, wakes up at most twice in a millisecond. It copies the
//     records in the order of their times, each to the [Source] of its process.
//  3. The source's own goroutine, in [Source.Run], makes samples of the records. A new thread is
//     attached at once. A target that keeps a read of its memory waiting holds up no other.
//
// [Open] makes rings for one source, which is the reader, too: so a record costs one wake-up. Twenty
// sources with rings of their own need 80 MiB on two CPUs, which the kernel grants to root alone
// (kernel.perf_event_mlock_kb), and shared ones 1.5 MiB.
//
// A sample is made in these steps:
//
//  1. The stack is unwound. The kernel's chain comes first, and the Go symbol table
//     repairs its first caller. If the chain does not reach a root, SP deltas lead on
//     through the piece of stack, and the registers that the runtime saved lead over
//     calls into C. A stack that still has no root is marked as truncated.
//  2. The goroutine is found by the register that holds its descriptor's address.
//  3. The verdict says whether the innermost activation is also in the goroutine's last
//     sample. It compares the two stacks. Where they are alike, a hardware watchpoint on
//     the return address decides, because any new call writes there.
//  4. Addresses become methods and lines, inlined calls included, and the sample is
//     pushed into the queue.
//
// # Calls caught
//
// A sample shows the method that runs, not the type that an interface held. Only a
// wrapper knows the type that embeds a promoted method, or the type arguments of a
// generic one, and wrappers are gone when the sample is taken. So the drainer also
// catches calls, in bursts, at the indirect calls that samples have on their stacks.
// Package sampler/internal/indirect finds these calls and their turns. A burst sets a hardware
// breakpoint on one or two threads, for 32 calls each or 16 ms, in the debug register that
// the watchpoints leave. For each call the kernel writes the register that holds the
// address, and the return addresses along the frame pointers. Each becomes a sample with
// Hit set. It has the method that is reached, wrappers included; the call site as in
// other samples, inlined calls included; and the callers. An address that is no function
// of the symbol table is dropped and counted.
//
// A caught call costs the target 15 to 18 µs in a virtual machine (Xeon, Linux 6.18),
// where an access to a debug register leaves the guest. Setting a breakpoint and closing
// it costs as much (BenchmarkBurst). Measured in pairs of runs, all included, it was 18
// µs a call: the default budget of 250 calls a second is 0.45 % of one core. The budget
// also pays for setting breakpoints, and a burst that catches few calls counts as 16: so
// about 200 calls a second are caught where a target uses one core.
//
// Caught calls count calls, and say nothing of CPU time. They are pushed when their burst
// is over, after samples that are younger. The calls of one burst follow on each other on
// a thread. So they are not independent, and a burst begins more often after a call that
// takes long. Threads are chosen by how often each was sampled at the site, and copies of
// an inlined call by how hot each is. Neither choice follows the number of calls.
//
// A call that is never on a sampled stack, because its callee is short and rare, is not
// caught. Neither is a call in assembly, in a wrapper, in the runtime or in C, nor any in
// a program built with -spectre=ret, which calls by way of a thunk. An interface that
// holds a T and one that holds a *T reach the same wrapper, (*T).M, where M is declared
// for T and T is not a pointer itself: the two cannot be told apart.
//
// # Fields of a sample
//
// Time is CLOCK_MONOTONIC at the interrupt, and Weight the period that the sample's event
// had then. Each event draws its own period, 5 to 30 % off the interval, and another one
// every 16 samples, so that sampling does not run in lockstep with periodic work. The
// first sample with a new period also stands for the discarded time. An event's first
// sample, and the first one at another interval, comes after a random part of the period
// and stands for all of it. Fresh is 0 where Top is TopRepeated and unknown otherwise:
// there is a mark for the innermost activation only, so that maps made of these samples
// count activations as lower bounds.
//
// # Windows
//
// An event on a thread costs each context switch the same at any interval. Where all costs together exceed
// [Options].MaxOverhead in two readings in a row, and 0.2 s in all, the events are on in random windows only, of
// 20 ms or four intervals. Weights are larger then, so that samples stand for the pauses, too, and their sum
// follows the target's CPU clock. Events are closed in pauses, because a switch pays for an event that is off,
// too. A window is at least 0.5 % of the time. The share of the time falls as the profile grows: of 1,000 samples
// or more, none weighs more than 2 %. Watchpoints and bursts end with a window. No verdict spans a pause, so a
// goroutine's first sample in a window has none. While sampling keeps to MaxOverhead, nothing changes.
//
// The chance to be in a window is the same for each moment. But the samples of one window are
// close to each other, so a profile of few windows is less precise than its number of samples
// says. Threads that begin and end within a pause are part of the time that other samples
// stand for. Time that is lost in windows stays unaccounted for. An exec in a pause leaves no
// record, so the drainer looks for it once a second.
//
// # Limits
//
// A call between the sample that a watchpoint was set for and the setting of it is
// missed; one between a sample and the reading of the watchpoint counts. Both times are
// at most a sixth of the interval, since a sample that is drained later has no verdict. A
// new thread runs some 100 µs before it is sampled and watched. A goroutine whose stack
// was moved gets no verdict. Samples taken while the runtime grows a goroutine's stack
// (runtime.morestack) are truncated there: the frame pointer is cleared, and the runtime
// overwrites the goroutine's saved registers microseconds later.
//
// An event counts the time of one thread on one CPU, and resumes when the thread comes
// back. So two samples of a thread that moves between CPUs can be closer than the
// interval, or farther apart. Their number is right.
//
// The Go callers of C are on another stack than C. Unless frame pointers lead to them,
// that stack is read after the sample, within 1 ms or so. If the goroutine is then in a
// call of the same C function at the same depth, the sample takes its callers. They can
// be the callers of the next such call, if two paths of equal depth lead to the same C
// function. If the goroutine is elsewhere, its last sample in such a call, at most a
// second old, lends its callers (Stats.Recalled; over 5 % of all samples it is a
// warning). Without one the stack is truncated.
//
// C functions without call frame information and frame pointer, such as hand-written
// assembly, hide the C functions that have called them: one frame [unknown] stands for
// the hidden functions, between the innermost function and Go. It also stands for the Go
// function that has called the race detector, if that function has returned before its
// stack was read. If it has not returned, its line can belong to a later call.
//
// A goroutine's number is read after the sample: it may belong to the next goroutine that
// the runtime has put into the same descriptor.
//
// Sampling needs a file descriptor for every thread on every CPU, and two more for every CPU, for all targets of
// the same rings. Each watchpoint takes one more for every thread, while there are enough, and a burst up to two.
// Threads beyond the limit are not sampled, which is logged once and is a warning in [sampler.Stats].
//
// # Lost records
//
// A record that finds its ring full is lost. The kernel tells how many were, not of which target. Since
// Linux 6.0 each event counts its own: a source asks its events within a second, and all of them when they
// are closed. Before, a loss is counted for the target whose record came next, or for all targets if that is
// none of them. A lost record can be one of an exec, of mapped code, or of a thread: so after a loss each
// source looks for all three. The reader alone empties the rings, and only copies. So records wait for a slow
// source in its inbox, 16 MiB at most, or an equal part of 64 MiB where that is less. Those beyond that are
// lost, too, and counted. If one of them was not a sample, the source looks for what it may have asked for.
//
// # Hostile targets
//
// A thread that changes its name or maps code in a loop writes a record each time, into the ring that all
// targets share. Two such threads wrote 175,000 names a second of their CPU time, which took 0.37 cores of
// this process, or 45,000 paths of 4 KiB. Then, on a busy machine, another target lost 10 % of its samples
// (two CPUs, Linux 6.18). So shared rings bound such records to 2 MiB a second and target. A target that makes more
// ends its own source with an error, after 0.25 s and 0.02 s: the reader takes 0.01 cores, and the other target
// lost nothing. Rings of one source have no such bound.
//
// # Time that no sample stands for
//
// A thread that ends before its first sample leaves no trace. Neither does the time while
// this process is stopped and the rings are full. So the weights of all samples are
// compared with the CPU clock of the target, which has no such gaps: [ccmap.Loss]. It is
// read with each hand-over, every 100 ms at most, and at the end. When the target ends and
// its parent has waited for it, the clock is gone; then the last reading stands. Stolen
// time of a virtual machine is not on the clock, where the kernel knows of it
// (CONFIG_PARAVIRT_TIME_ACCOUNTING), but the timers of threads run on. So once a second,
// weights become smaller where they have gone ahead of the clock, see [taker.Taker.Trim]. They are never
// raised: time that no sample stands for stays visible.
//
// A switch between threads is such time, too: the kernel stops a thread's event before it, and starts the next one's
// after it. [Source.Stats] says so where switches are many.
//
// Where samples leave out time in the kernel, so does the clock. The kernel tells the two
// apart once a tick (CONFIG_TICK_CPU_ACCOUNTING), so the clock is sampled, too;
// [ccmap.Loss.ClockTick] says how coarse it is.
//
// Facts about the kernel were found on Linux 6.18, about the runtime in Go 1.26. Package
// gosym reads the target by the target's own Go version.
package perf
