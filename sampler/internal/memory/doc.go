// Package memory is the engine that samples what goroutines, and threads of a JVM, wait for, from outside: engine
// "memory". A goroutine or a thread at rest is data. Its descriptor and its stack are read from the memory of the
// process, without stopping it, and without perf events. [FindStuck] tells by the same means what has waited for long.
//
//	tick ─▶ census of all goroutines ─▶ looks at those that have moved on ─▶ stacks with reasons ─▶ queue
//
// A tick goes through these steps:
//
//  1. The census reads the descriptors of all goroutines: state, reason, and a number that rises whenever a goroutine
//     leaves running. The same number shows the same wait. Of a thread the kernel has that number.
//  2. A goroutine whose wait has been looked at before keeps that stack. Of the others up to 512 are looked at: one
//     at random out of each stratum of equal size, which it stands for. One that has gone on gets a second look.
//  3. A sample weighs the time since the last tick, times the goroutines that it stands for. So the weights of a
//     stack are the time that goroutines have spent in it.
//  4. The time of a wait is told when the wait ends, or turns out to be idle: a wait that outlasts
//     [sampler.ProcessOptions.Idle] outside of a request is [idle] from its beginning.
//
// Ticks come at random within equal periods. The period becomes longer where ticks would take more than their part
// of a core.
//
// A goroutine that runs has no stack that could be read: it is [running] where running is asked for, above its first
// function. One that goes on while it is read keeps its reason, and has [moved] for its stack.
//
// # Goroutines
//
// Run samples in one goroutine, on a thread of its own with exact timers. Info, Stats and SetInterval may be called by
// any goroutine.
package memory
