// Command ccmapd samples the stacks of a running Go process, from outside, or of a
// WebAssembly module that it runs, from inside, and keeps their Call Context Map. See
// ccmapd --help.
//
// A subcommand is a file. What several of them need is in the cellar, internal/:
//
//	session    samples one target: source, map, manager, live line, report
//	family     samples the processes that a target starts, and merges them by program
//	launch     starts a program that waits, by ptrace, until it can be sampled
//	livetop    the hottest methods on a whole terminal, steered by keys
//	output     writes profiles to the places that users name
//	mergefiles adds up the profiles of many files, in bounded memory
//	coverage   adds the counts of Go's coverage files to a profile
//	gocover    reads coverage files of Go programs, and the branches of their source
//	wasi       runs a WebAssembly module as a program for WASI preview 1
//	loading    answers a page while its profiles are still being read
//	sources    lines of source files below one directory, for the pages
//	rootfs     one directory as a guest's file system, with no way out of it
//	demo       the server that 'ccmapd demo' samples, which knows the truth
package main

import (
	"os"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

func main() {
	os.Exit(runProcess(append(engine.All(), engine.Endpoint(engine.EndpointOptions{Read: readServed}))))
}

// runProcess lowers the capabilities of this process, and then runs its command line.
func runProcess(all []engine.Engine) int {
	env := &environment{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, engines: all}
	process, err := privilege.Start()
	if err != nil {
		reportError(env.stderr, nil, explainStart(err))
		return exitPermission
	}
	env.process = process
	return execute(newRoot(env), os.Args[1:])
}
