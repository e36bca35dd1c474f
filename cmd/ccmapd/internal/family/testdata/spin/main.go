// Command spin is a program of another build than the tests, and a small one: it uses a third of a CPU
// until its standard input ends, or none if it is told to wait.
package main

import (
	"io"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "wait" {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	var over atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	for x := uint64(1); !over.Load(); time.Sleep(2 * time.Millisecond) {
		for began := time.Now(); time.Since(began) < time.Millisecond; {
			x *= 3
		}
	}
}
