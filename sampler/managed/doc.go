// Package managed is what a VM hosted in Go embeds to be profiled: its threads
// take their own samples, at safe points (Chilingarova and Safonov, ".NET
// Technologies 2006", sections 3.1.4, 3.2 and 4).
//
// A [Profiler] is a [sampler.Source], which package manager runs; a [Thread] is a
// goroutine, or whatever else has one stack of the VM, as long as it runs the VM's
// code.
//
//  1. The marker, [Profiler.Run], marks all threads once an interval. It counts an
//     epoch up, whatever the number of threads. Only threads with a [Hook] are
//     told one by one.
//  2. At its next safe point a thread finds that the epoch has changed
//     ([Thread.Safepoint]) and walks its own stack by means of the VM's [Walker],
//     innermost frame first.
//  3. The walk ends at the first frame with the [Mark] of an earlier sample: what
//     lies below has not changed since. That frame is the last one of the sample,
//     with its present offset and its depth.
//  4. The sample goes into the thread's own ring of the queue, which publishes
//     every tenth. Only if it was taken there are the frames marked: a sample that
//     a full ring drops leaves no trace, and the next one finds the same
//     activations new.
//  5. The map completes the sample with the rest of the thread's last stack
//     ([ccmap.Map.Fold]), and counts the frames without a mark as new activations.
//  6. Four times a second the marker publishes what threads at rest have not.
//
// # What the VM does
//
// It keeps a Mark in every activation record, and zeroes it when an activation
// begins: see the example. It calls Safepoint where it can walk its stack, at every
// method's entry and every loop's back edge at least, and after calls of host
// functions, so that their time is theirs. It attaches a thread before its first
// call and detaches it after the last one, and calls [Thread.Park] and
// [Thread.Unpark] around whatever waits. Package managedtest checks a walker.
//
// An activation that moves to another stack or depth, as that of a coroutine does,
// takes its mark with it, which is wrong there: coroutines are threads of their
// own.
//
// A VM whose compiled code cannot call Go at every safe point polls a flag of its
// own; the thread's Hook sets it, and what it leads to calls [Thread.Sample]. A VM
// that wants samples by another clock than time sets none ([Options].Interval)
// and calls [Profiler.Mark].
//
// # What is guaranteed
//
// Of the profile:
//
//   - Activations with a slot never exceed those that there were, whatever is
//     dropped. Each one that a sample has met is counted once, also if its thread is
//     attached again in the middle of it, to the same profiler.
//   - Contexts are complete, and the frames of a sample are those of one moment. No
//     sample is an orphan, as long as the map has room for the last stacks of the
//     threads; a thread walks to its outermost frame once in 128 samples, and
//     whenever thousands of others were sampled since its last one.
//   - The top frame is a repetition if and only if an earlier sample has marked it,
//     as in section 3.3.
//   - All that was sampled is published when Run returns. Later samples are refused.
//
// Of the VM:
//
//   - A walker or hook that panics has its own thread switched off, until that is
//     attached again, and is counted and logged; it is not trusted any more. A
//     walker may end its goroutine (runtime.Goexit). Panics of the VM itself pass
//     through: none of this package is on the stack but in a sample.
//   - No code of the VM runs under a lock that a thread takes.
//   - A thread that becomes garbage is detached. One that dies, or never reaches a
//     safe point, keeps nothing from the others. All are counted in
//     [sampler.Stats].
//
// # Frames without a slot
//
// A frame whose Mark is nil counts as a new activation if one below it is new, and
// otherwise not. For a host function, which begins and ends between two safe
// points, a VM may keep one Mark in the thread and clear it at each call. A stack
// without any slot is walked whole each time. Its samples say neither what is new
// nor whether the top is a repetition, and the map tells new activations by comparing
// stacks: there are no fewer in truth, unless the thread is attached again in the
// middle of them.
//
// More than 2,048 new activations on top of each other are too many for one
// sample: it is truncated. What is cut off is counted when a later sample meets it.
//
// # What a sample stands for
//
// The time of the marks that the thread has run for since its last sample: a late
// marker, and a thread late at its safe point, lose none of up to 10 s for each
// processor. It is CPU time: while the process has no processor, because all of it
// waits or the machine is busy, no time passes. Together samples never stand for more
// than the process has run: where its threads claim more, as more threads than
// processors do, each gets its share. Time while parked counts nowhere; of the time of
// others, a thread that waits without Park gets a share. In a [Burst] the samples
// share the time.
//
// The marker is a goroutine. Where all processors execute code that does not yield
// to Go's scheduler, as compiled code of a VM, it comes late: let GOMAXPROCS be 2
// at least. Its delays are counted (Late).
//
// # Calls caught
//
// A sample shows what runs, not which receiver a call had. At random moments the
// next 32 calls are wanted ([Thread.CallsWanted]), of all threads together, and the
// VM tells what each reaches ([Thread.Called]). They are pushed as samples with
// Hit set and say nothing of time.
//
// # Costs
//
// Measured on a shared Xeon at 2 virtual CPUs, Go 1.26 (see bench_test.go): a safe
// point that is not marked 0.4 ns beside an empty loop of 1.7 ns; a mark, with its
// sample, 0.4 µs with one new activation and 2.2 µs with 100, without allocation; a
// mark 0.1 µs for any number of threads, and 31 ns for each hook; a
// thread attached and detached 1.5 µs; Park and Unpark 60 ns. A thread has
// no ring before its first sample.
package managed
