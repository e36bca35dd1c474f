// Package jfr is the engine that samples a JVM through its own Flight Recorder: engine
// "jfr". It is for places where the kernel refuses perf events, as containers do. It needs
// the rights of jcmd: to be root, or the JVM's user and group.
//
//		attach ─▶ JVM ─▶ recording ─▶ chunk, a file that grows ─▶ tail ─▶ samples ─▶ weights ─▶ queue
//
//	 1. [Open] starts a recording with one event: jdk.CPUTimeSample from JDK 25 on, else
//	    jdk.ExecutionSample. The recording is a lease of 60 s, and is renewed after 45 s: if
//	    ccmapd is killed, the JVM stops recording by itself, and writes no file.
//	 2. The JVM flushes events into the chunk once a second. The tail opens the first chunk through
//	    /proc/PID/fd, and those that follow it in its folder, the JVM's repository, inside the
//	    target's root directory and without following a link. It reads what a flush adds. The JVM
//	    keeps finished chunks while our recording runs. So the tail catches up before it stops one.
//	 3. A sample of jdk.CPUTimeSample says what CPU time it stands for. Samples of
//	    jdk.ExecutionSample share the CPU time that their thread has used since the last
//	    flush, by the kernel's clock. What is left is time in native code, in the kernel, or of
//	    the JVM's own threads: [native], [kernel], [gc], [jit], [vm]. So the total is the CPU
//	    time of the process.
//	 4. [Source.Run] ends with the recording: every sample until then is pushed.
//
// [Record] starts a recording of other events, for callers that read these themselves.
//
// Other recordings of the JVM go on. Settings of the JVM are a union: a recording with a
// shorter period makes more samples, which then weigh less. Each start and stop of any
// recording begins a new chunk.
//
// The interval is whole milliseconds. [Source.SetInterval] notes a wish, and the goroutine that
// talks to the JVM starts a recording with it beside the one before: changes come 5 s apart, and are
// by half at least.
//
// Samples can be of other events ([Alloc], [Lock]), at a rate that the JVM bounds. They weigh what the
// events say, and no time is shared out.
//
// The engine has no marks and no verdicts: the JVM does not say where a stack lies. Java code
// alone is seen. Threads of the recorder itself are left out, and are the overhead.
//
// jdk.CPUTimeSample needs the signal SIGPROF. Where another profiler in the JVM has it, [sampler.Stats] says so.
//
// # Goroutines
//
// Run reads chunks and pushes. One more goroutine talks to the JVM, which may take seconds to
// answer. Info and Stats may be called by any goroutine.
package jfr
