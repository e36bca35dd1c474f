// Package bpf samples CPUs, and takes the samples that belong to its targets.
//
// A [Host] has one timer on every CPU for all targets together. When a timer expires, a
// small BPF program, record.bpf.c, looks up whether the process that it interrupts
// is a target, and makes the whole record at that moment: registers, the descriptors
// of the goroutine and its thread, and both stacks that the thread has. So nothing has to
// be attached to the target's threads, and a switch between threads costs the target
// nothing. An event of a thread, as package perf has them, is taken off and put back at
// each switch, which costs 2.5 µs in a virtual machine (Linux 6.18).
//
//  1. [OpenHost] loads the program, and begins to look into its ring.
//  2. [Host.Open] names a process and the interval that it wants. The timers run at the
//     shortest interval of all targets, and the program keeps a random share of the
//     interrupts of each.
//  3. One goroutine, the host's reader, takes the records of all targets from one
//     ring, five times a second or when the program wakes it, and puts each into the inbox of its
//     [Source]. It wakes a source at once for a record that may lead to a verdict, and
//     for all others five times a second. If it cannot wait for records any more, all sources end with that error.
//  4. The source's own goroutine, in [Source.Run], makes samples of the records, with
//     package taker. A target that keeps a read of its memory waiting holds up no other.
//
// [Open] makes a host for one source, which is the reader, too: so a batch of records costs
// one wake-up, not two. It loads the program while the target's symbols are read, and for a JVM
// without the part that follows goroutines.
//
// [Host.OpenWhole] samples all processes as one target, beside the others. The program makes a record
// without stacks of each process that is no target. Go programs and JVMs become targets of that source
// when their first samples come; a process that is another source's, too, has one entry in the program, and
// its records go to both.
//
// # Weights
//
// A sample stands for one period of its CPU's timer, divided by the share of interrupts
// that are kept. It is found with the thread that runs at that moment.
//
// The sum is the target's CPU time, because a timer expires at points that are a period
// apart, and an interrupt that comes late moves no other one. Where these points lie has
// nothing to do with the target. So on average as many of them fall into its time as it
// has periods, and whether an interrupt of another thread or of an idle CPU runs the program
// does not matter. The time since the last interrupt that ran the program does not serve: a
// CPU of a virtual machine ran none while it was idle (Linux 6.18), so the first one after
// that seemed to stand for up to five periods.
//
// A hypervisor that takes a CPU away stops the clocks of its threads, and not the timer. So a sample leaves out
// that time: as much as the CPU was away since the interrupt before, if that was of the same process, and at most
// a period. Time taken from an idle CPU is no thread's. Kernels without CONFIG_FAIR_GROUP_SCHED do not tell, and
// nothing is left out. Without that, weights exceeded the clock by as much as the hypervisor took: 1 % on a quiet
// virtual machine, more on a busy host.
//
// How many interrupts find a target is a matter of chance. With 1,500 samples of a process that uses
// a third of two CPUs, the standard deviation of their sum is 2 %. So once a second the host sets a factor
// for weights, 1.1 at most, so that their sum follows the process's clock ([taker.Taker.Trim]). A second with
// lost records is left out, and stays a loss.
//
// Periods are 5 to 30 % off the interval, as in engine perf, and drawn anew every 100 to 200 ms, or after 8 to 16
// periods if they are long, so that sampling does not run in lockstep with periodic work.
// The kernel forgets how much of a period has passed when another one begins. The first
// interrupt stands for that time, too.
//
// In a virtual machine an interrupt comes late, by 18 µs at the median and 25 on average
// (Linux 6.18). The sample is of the thread that runs then. So a thread loses that time each
// time that it waits, and the thread that runs after it gains it: beside a busy program on
// one CPU, 65 % of the clock of a thread were seen that used 0.1 ms at a time, 92 % with
// 0.23 ms, and 100 % with 1 ms.
//
// The samples of a thread are an interval apart only while it stays on the CPU. The record
// has the thread's CPU time, and a sample that comes sooner by that is early.
//
// # Verdicts
//
// The program draws fifty samples of a target a second, one of ten at least, before the outcome can be
// known, and wakes the reader for it, which sets a watchpoint on the innermost return address. The next sample of
// that goroutine has the verdict. All other samples have none.
//
// The watchpoint is one event a CPU, so it costs the switches of threads nothing (measured
// by BenchmarkSwitch of package perfevent: 1.6 to 2.2 µs a switch on threads). It notes the
// time of a write, which decides however late the sample is drained. Setting it interrupts
// every CPU, some 40 µs each. Where a machine has more CPUs than [perfevent.MostCPUs], or
// where two debug registers of a CPU would not be left to others, the watchpoint is on all
// threads of the target. Then it is closed with the verdict, or after four intervals, and
// the program wakes the reader for the next sample, too.
//
// All Go programs have their stacks at the same addresses, so another process can write
// where a watchpoint is. That uses up the CPU's event, and there is no verdict.
//
// # Overhead
//
// The first host measures the time of an interrupt, without and with a sample, the cost of a watchpoint to a
// context switch, of setting it and of its trap, and the cost of a caught call. The program counts interrupts. An
// interrupt that takes a sample is charged to its target. All interrupts are charged to the host, which bounds the
// interval: see [HostOptions]. A watchpoint on CPUs is charged to its source as if each of the CPUs were busy.
// Threads with a breakpoint are charged the switches of the thread that switches most.
//
// # System calls
//
// A record made in the kernel has the number of the system call: orig_ax of the registers
// that the thread has entered the kernel with. It is -1 after a fault or an interrupt of the
// program (arch/x86/entry, Linux 5.15 to 6.18), and a fault in a system call leaves it as
// it is. The program leaves out the numbers of 32-bit calls, which mean other calls. x32's numbers
// are beyond the table. The kernel delivers signals on its way out of a call, and that time has
// the call's name. rt_sigreturn has no name once it has restored the registers.
//
// # Limits
//
// Memory that is not mapped in, or swapped out, is not in a record. A goroutine's stack is copied to its end. Of
// one that is longer than 64 KiB the record has the innermost 64 KiB and the outermost 16 KiB, and the rest is
// read later: see package goproc. A copy of a stack whose end is not known is cut, and such copies grow from 4 to
// 16 or 64 KiB where that happens. A thread that has given up its memory is in `[kernel] exit`, and has no
// callers. Threads that begin after a watchpoint was set on threads are not watched. An exec is noticed by the
// next record, or within a second.
//
// A host samples 16,384 processes at most. CPUs that come online are sampled within a
// second, and CPUs that were offline for less than half a second within four.
//
// The kernel must be 5.15 or later, with BTF, and none of those from 5.19 to 6.3 that may
// freeze (see number.freezes). The caller needs CAP_BPF and CAP_PERFMON, in the initial PID
// namespace, where the numbers of processes are the program's, and in the initial time
// namespace. A refusal has the reason and the cure.
//
// # Hostile targets
//
// The program trusts nothing that it reads in a target. It follows a fixed number of
// pointers, copies a bounded number of bytes of the thread's own memory, and fills the place
// of an object that cannot be read with zeros. A thread that ends has given up its memory:
// its record has registers alone.
package bpf
