// Command ccmapd samples the stacks of a running Go process, from outside, or of a
// WebAssembly module that it runs, from inside, and keeps their Call Context Map. See
// ccmapd --help.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
