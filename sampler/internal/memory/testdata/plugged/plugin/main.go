// A plugin whose function waits.
package main

import "time"

// Rests sleeps for ever.
//
//go:noinline
func Rests() {
	for {
		time.Sleep(3 * time.Millisecond)
	}
}

func main() {}
