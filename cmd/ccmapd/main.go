// Command ccmapd samples the stacks of a running Go process, from outside, or of a
// WebAssembly module that it runs, from inside, and keeps their Call Context Map. See
// ccmapd --help.
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
