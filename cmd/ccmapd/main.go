// Command ccmapd attaches to a running Go process, samples its stacks and keeps
// its Call Context Map. See ccmapd --help.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
