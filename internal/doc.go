// Package internal is what several wings of this module need. It has two shelves.
//
// Leaves know nothing of this module:
//
//	advice      errors for users: what to do, and a code with one exit code and one HTTP status
//	audit       lines of the log that others can cause: so many of each of them
//	beat        the moments of periodic work, the same for all goroutines
//	budget      divides a budget, and the CPU time of this process, among sessions
//	compilation compile records: what compilers have made of methods, kept for the next run
//	contribution what a daemon sends to the hub of its fleet
//	cursor      numbers and texts out of foreign bytes
//	figure      numbers for people: counts, shares, times, sizes
//	fleet       what a hub says of the profiles that it has
//	hang        an end to reads that never return
//	loopback    whether a host is this machine, by its name alone
//	pages       pages for a browser, and the secret that lets one in
//	programtest programs that tests copy and execute
//	refusal     why a process cannot be sampled
//	terminal    text for people: harmless names, tables that fit, live lines, JSON
//	testrun     a run of tests: what a newcomer's run leaves out, an end to what tests start
//
// The ground knows processes, files and the kernel. It stands on leaves and on the vocabulary of package ccmap:
//
//	ehframe     call frame information of C code
//	fanin       from how many places methods are called: made, written and looked up
//	gosym       symbols of Go processes: program counter table, inlining, debug files
//	jvm         what several wings read of JVMs: attach, recordings, names
//	kallsyms    names of the kernel's functions
//	moments     when samples were counted, in files
//	perfevent   perf events: timers, watchpoints, breakpoints, rings, records
//	privilege   the rights of this process: capabilities, seccomp, Landlock
//	process     a process from outside: state, threads, CPU clock, memory, moments
//	profiletest profiles for tests
//	safepath    opens files that no other user can change, replace or lead elsewhere
//	served      programs that serve their profiles over HTTP: addresses, credentials, failures
//	supervise   the life of a process that is to be sampled: found, opened, refused, ended
//	traceetest  processes that a user may or may not trace, and the kernel's answer
//	uplink      the hub of a fleet, as a daemon speaks to it
//	versitygw   a server of S3 for tests
//
// Packages recording, daemon, feedback and store are wings of their own, closed to other modules: one session of
// sampling, the sessions of a machine, what compilers are told, and profiles that outlive the run.
package internal
