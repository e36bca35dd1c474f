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
//  2. The drainer, one goroutine, wakes up at most once in a millisecond and
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
// # What a sample says
//
// Its Time is that of CLOCK_MONOTONIC at the interrupt, its Weight the period
// that its event had then; an event's first sample, and the first one at another
// interval, comes after a random part of the interval and stands for all of it. Fresh is 0 where Top is
// TopRepeated and unknown otherwise: there is a mark for the innermost activation
// only, so that maps made of these samples count activations as lower bounds.
//
// # Limits
//
// A call between the sample that a watchpoint was set for and the setting of it
// is missed. A new thread runs some 100 µs before it is sampled and watched.
// When a goroutine's stack was moved there is no verdict. Samples taken while
// the runtime grows a goroutine's stack (runtime.morestack) are truncated there:
// the frame pointer is cleared, and what was saved of the goroutine is
// overwritten microseconds later.
//
// An event counts the time of one thread on one CPU, and runs on where it left
// off when the thread comes back: two samples of a thread that moves between
// CPUs can be closer than the interval, or farther apart. Their number is right.
//
// A goroutine's number is read after the sample: it may be that of the next
// goroutine which the runtime has put into the same descriptor.
//
// Threads times CPUs is the number of file descriptors used, and two for every
// CPU; watchpoints take one more each for every thread, while there are enough.
// Threads beyond the limit are not sampled, which is logged once.
//
// Facts about the kernel were found on Linux 6.18, about the runtime in Go 1.26;
// the target's own Go version decides over what package gosym knows of it.
package perf
