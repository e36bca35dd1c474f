// Waits has goroutines that wait in known ways, and measures their waits with its own clock. After a line on standard
// input it begins to measure, and after a second one it prints when that was, by CLOCK_MONOTONIC, and what it has:
// "FUNCTION NANOSECONDS".
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var clocks struct{ sleep, receive, lock atomic.Int64 }

// measured adds the time of a wait to a clock.
func measured(clock *atomic.Int64, wait func()) {
	begin := time.Now()
	wait()
	clock.Add(int64(time.Since(begin)))
}

//go:noinline
func sleeps() { time.Sleep(7 * time.Millisecond) }

//go:noinline
func receives(c chan int) { <-c }

//go:noinline
func locks(mu *sync.Mutex) { mu.Lock() }

//go:noinline
func idles() { <-make(chan int) }

//go:noinline
func handles() { <-make(chan int) }

// monotonic returns the time, ns.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func main() {
	for range 3 {
		go func() {
			for {
				measured(&clocks.sleep, sleeps)
			}
		}()
	}
	c, mu := make(chan int), new(sync.Mutex)
	go func() {
		for {
			time.Sleep(11 * time.Millisecond)
			c <- 1
		}
	}()
	go func() {
		for {
			measured(&clocks.receive, func() { receives(c) })
		}
	}()
	for range 2 {
		go func() {
			for {
				measured(&clocks.lock, func() { locks(mu) })
				time.Sleep(5 * time.Millisecond)
				mu.Unlock()
			}
		}()
	}
	go idles()
	go handles()
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	in.ReadString('\n')
	begin, from := monotonic(), [3]int64{clocks.sleep.Load(), clocks.receive.Load(), clocks.lock.Load()}
	in.ReadString('\n')
	fmt.Println(begin, monotonic())
	fmt.Println("main.sleeps", clocks.sleep.Load()-from[0])
	fmt.Println("main.receives", clocks.receive.Load()-from[1])
	fmt.Println("main.locks", clocks.lock.Load()-from[2])
	in.ReadString('\n')
}
