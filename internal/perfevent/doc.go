// Package perfevent opens the kernel's perf events (perf_event_open(2)) and reads
// their records. It knows neither Go nor any other runtime.
//
//	Timer       a clock of one thread on one CPU, which takes a sample every period
//	Watchpoint  notices a write to a word of the target, by any of its threads
//	CPUWatch    the same, on any CPU: it costs the threads' switches nothing
//	Breakpoint  catches calls at an instruction
//	Kin         tells of the children of processes: births, programs, ends
//	Ring        the buffer of a CPU or an event, with a decoder for every record
//	Waiter      waits until a ring has records
//	Costs       the prices of timers and watchpoints for the threads that have them
//
// Sizes in records come from the kernel, but no length is trusted before it was
// compared with the bytes that are there.
//
// Only a [Ring] has memory that the kernel writes to. All types belong to one goroutine
// unless they say otherwise.
//
// Facts about the kernel were found on Linux 6.18.
package perfevent
