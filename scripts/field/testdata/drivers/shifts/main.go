// Shifts has as many goroutines as its first argument says, and as many as the second that spin. Each of the first waits in one of six ways for some milliseconds, below
// a random number of calls, and then in another. The function that waits tells the reason.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"
)

func pause() time.Duration { return time.Duration(1+rand.IntN(15)) * time.Millisecond }

//go:noinline
func sleeps() { time.Sleep(pause()) }

//go:noinline
func receives(from <-chan time.Time) { <-from }

//go:noinline
func selects(from <-chan time.Time, never chan int) {
	select {
	case <-from:
	case <-never:
	}
}

//go:noinline
func locks(mu *sync.Mutex) { mu.Lock() }

//go:noinline
func conditions(c *sync.Cond) {
	c.L.Lock()
	c.Wait()
	c.L.Unlock()
}

//go:noinline
func reads(from *os.File, one []byte) { from.Read(one) }

// worker is what a goroutine waits for.
type worker struct {
	mu    sync.Mutex
	cond  *sync.Cond
	never chan int
	one   []byte
	in    *os.File
	out   *os.File
}

//go:noinline
func (w *worker) down(calls, way int) int {
	if calls > 0 {
		return 1 + w.down(calls-1, way)
	}
	later := func(do func()) { time.AfterFunc(pause(), do) }
	switch way {
	case 0:
		sleeps()
	case 1:
		receives(time.After(pause()))
	case 2:
		selects(time.After(pause()), w.never)
	case 3:
		w.mu.Lock()
		later(w.mu.Unlock)
		locks(&w.mu)
		w.mu.Unlock()
	case 4:
		conditions(w.cond)
	default:
		later(func() { w.out.Write([]byte{1}) })
		reads(w.in, w.one)
	}
	return 0
}

//go:noinline
func (w *worker) shifts() {
	for {
		w.down(rand.IntN(12), rand.IntN(6))
	}
}

// wakes ends waits for a condition, also one that began after the last signal.
func (w *worker) wakes() {
	for {
		time.Sleep(pause())
		w.cond.Broadcast()
	}
}

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	spinners, _ := strconv.Atoi(os.Args[2])
	for range spinners {
		go func() {
			for {
			}
		}()
	}
	for range n {
		w := &worker{cond: sync.NewCond(new(sync.Mutex)), never: make(chan int), one: make([]byte, 1)}
		if w.in, w.out, err = os.Pipe(); err != nil {
			panic(err)
		}
		go w.wakes()
		go w.shifts()
	}
	fmt.Println("waiting")
	select {}
}
