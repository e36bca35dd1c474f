// Package managed is the SDK for VMs hosted in Go. A VM embeds it to be profiled: its
// threads take their own samples, at safe points (Chilingarova and Safonov, ".NET
// Technologies 2006", sections 3.1.4, 3.2 and 4).
//
// A [Profiler] is a [sampler.Source], which package manager runs. A [Thread] is a
// goroutine, or anything else with one stack of the VM, as long as it runs the VM's code.
//
//  1. The marker, [Profiler.Run], marks all threads once an interval. It increments an
//     epoch, for any number of threads. It calls only threads with a [Hook] one by one.
//  2. At its next safe point a thread notices the new epoch ([Thread.Safepoint]) and
//     walks its own stack with the VM's [Walker], innermost frame first.
//  3. The walk ends at the first frame with the [Mark] of an earlier sample: the frames
//     below are unchanged since. That frame is the last one of the sample, with its
//     present offset and its depth.
//  4. The sample goes into the thread's own ring of the queue, which publishes
//     every tenth sample. The frames are marked only if the ring took the sample: a sample
//     that a full ring drops leaves no trace, and the next one finds the same activations
//     new.
//  5. The map completes the sample with the rest of the thread's last stack
//     ([ccmap.Map.Fold]), and counts the frames without a mark as new activations.
//  6. Four times a second the marker publishes the samples of threads at rest.
//
// # Duties of the VM
//
// It keeps a Mark in every activation record, and zeroes it when an activation begins:
// see the example. It calls Safepoint where it can walk its stack: at least at every
// method's entry and every loop's back edge, and after calls of host functions, so that
// their time is theirs. It attaches a thread before its first call and detaches it after
// the last one, and calls [Thread.Park] and [Thread.Unpark] around every wait, or [Thread.Blocked] in place of Park:
// then [Profiler.Waits] has what threads wait for. Package
// managedtest checks a walker.
//
// An activation that moves to another stack or depth, as in a coroutine, takes its mark
// with it, where the mark is wrong. So coroutines are threads of their own.
//
// A VM whose compiled code cannot call Go at every safe point polls a flag of its own.
// The thread's Hook sets the flag, and the code that the flag triggers calls
// [Thread.Sample]. A VM that wants samples by another clock than time has no marker
// ([Options].Interval is negative) and calls [Profiler.Mark].
//
// # Guarantees
//
// For the profile:
//
//   - Activations with a slot are never counted more often than they happened, however many
//     samples are dropped. Each activation that a sample has met is counted once, even if its
//     thread is attached to the same profiler again in the middle of it.
//   - Contexts are complete, and the frames of a sample are from one moment. No
//     sample is an orphan, as long as the map has room for the last stacks of the
//     threads. A thread walks to its outermost frame once in 128 samples, and
//     whenever thousands of other threads were sampled since its last sample.
//   - The top frame is a repetition if and only if an earlier sample has marked it,
//     as in section 3.3.
//   - All samples are published when Run returns. Later samples are refused.
//
// For the VM:
//
//   - If a walker or hook panics, its own thread is switched off until it is attached again,
//     and the panic is counted and logged. A walker may end its goroutine (runtime.Goexit).
//     Panics of the VM itself pass through: code of this package is on the stack only during
//     a sample.
//   - No code of the VM runs under a lock that a thread takes.
//   - A thread that becomes garbage is detached. A thread that dies, or never reaches a
//     safe point, keeps nothing from the others. [sampler.Counter] has a count of each.
//
// # Frames without a slot
//
// A frame whose Mark is nil counts as a new activation if a frame below it is new, and
// otherwise not. For a host function, which begins and ends between two safe points, a VM
// may keep one Mark in the thread and clear it at each call. A stack without any slot is
// walked whole each time. Its samples show neither new activations nor repetitions, and
// the map finds new activations by comparing stacks. The map then counts no more
// activations than there are, unless the thread is attached again in the middle of them.
//
// A sample holds at most 2,048 new activations. A deeper one is truncated: its other
// activations are counted when a later sample meets them.
//
// # The time of a sample
//
// A sample stands for the marks that its thread has run for since its last sample. A late
// marker, and a thread that reaches its safe point late, lose nothing up to 10 s for each
// processor. The time is CPU time: while the process has no processor, because all of it
// waits or the machine is busy, no time passes. All samples together never stand for more
// time than the process has run. If its threads claim more, as more threads than
// processors do, each gets its share. Time while parked does not count. A thread that
// waits without Park gets a share of the other threads' time. The samples of a [Burst]
// share the time.
//
// The marker is a goroutine. If all processors execute code that does not yield to Go's
// scheduler, such as a VM's compiled code, the marker comes late: let GOMAXPROCS be at
// least 2. Its delays are counted (Late).
//
// # Caught calls
//
// A sample shows running code, but not the receivers of calls. At random moments the next
// 32 calls are wanted ([Thread.CallsWanted]), from all threads together, and the VM
// reports the target of each ([Thread.Called]). They are pushed as samples with Hit set,
// and carry no time. Of sites that a cached profile knows well, one call in eight is caught, and the rest of the
// budget goes to the others.
//
// # Profile points
//
// A VM can count at single positions of its code: branches, cases of switches, blocks, types
// that checks meet, nulls among them, and numbers of variables ([Options].Points; none unless
// asked). Its compiler asks for a [Site] once, and the code counts there
// ([Thread.Branch] and others) every time. Each thread counts for itself, and gives its
// counts away at its next safe point with a mark, when the manager or the marker has asked:
// four times a second at least. So profiles have all counts up to a moment ago, and those
// of threads that are parked or detached to the last one.
//
// A thread finds two values of a point at once, and from the third on the 15 most frequent
// ones. Beside them it keeps 64 more until it gives its counts away, and counts the rest as
// others.
//
// # Costs
//
// Measured on a shared Xeon at 2 virtual CPUs, Go 1.26 (see bench_test.go): a safe point
// without a mark 0.4 ns beside an empty loop of 1.7 ns; a mark with its sample, 0.4 µs
// with one new activation and 2.2 µs with 100, without allocation; a mark 0.1 µs for any
// number of threads, and 31 ns for each hook; a thread attached and detached 1.5 µs; Park
// and Unpark 60 ns. A thread has no ring before its first sample.
package managed
