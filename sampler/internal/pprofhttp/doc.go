// Package pprofhttp takes the profiles of a Go program that serves them by itself
// (net/http/pprof), where nothing can attach to the program: it runs on another machine,
// or belongs to another user.
//
//  1. [Open] checks the address, and asks the program for its command line. [Finder.Open]
//     finds the address of a process on this machine.
//  2. [Source.Run] asks for one profile after another. Each is of some seconds of CPU
//     time, which the program's own profiler samples.
//  3. A profile whose unit is CPU time goes to the consumer of [Source.Profiles], which owns
//     it from then on. Its description is empty: a server could grow that without end.
//  4. If a request fails, the next one follows after a pause that grows, with jitter. The
//     server may restart meanwhile; failed requests are counted in the warning of
//     [sampler.Stats]. Where the server refuses, or is another program by its build id, Run ends,
//     and after so many failures as Options.MaxFailures permits.
//
// # What is missing
//
// A profile is a sum, not samples: it has no activations, no repetitions, no receivers of
// calls, and no word on stacks that were cut (runtime/pprof keeps 128 frames of them in Go
// 1.23 and later, and 64 before). The interval is the program's own, usually 10 ms of CPU time.
// Work between two profiles is not seen, some ms each time.
//
// Only one CPU profile can be taken of a process at a time. While another client takes one,
// the server answers 500, which is retried. An endpoint that the user has named is asked without a
// pause. Nobody has offered the endpoint of a process to ccmapd, so 10 s follow each profile of 5 s in
// which others can take theirs. The CPU time that the process uses meanwhile is unaccounted
// ([ccmap.Loss]).
//
// # Which process answers
//
// Only the process itself may answer for it. So [Finder.Open] asks its own sockets alone, where no other
// process has the same address (SO_REUSEPORT), and wants its command line. Before each profile the
// source looks again: at the process, which may have ended, and at its socket. A socket that
// several processes have inherited is not known from one that a single process has, because
// that takes a look at all processes.
//
// Where the kernel does not say which sockets a process has, its user's are asked, and more must hold: see
// the file user.go.
//
// # Hostile servers
//
// The server is not trusted. Options.Read bounds the memory that an answer takes, and the source
// bounds the names that all answers bring. Every request has a deadline. Redirects
// are followed to the same host and scheme only. Credentials are read from files at each request, and go
// to no other host, and without TLS to this machine only. An answer to a request with credentials is
// quoted in no error, since it may repeat them.
package pprofhttp
