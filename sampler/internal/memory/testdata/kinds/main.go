// Kinds has goroutines that wait in the way that its argument names: "pull", a coroutine of iter.Pull, or "pingpong", two
// that wait for each other as often as they can. After a line on standard input it prints how many waits there were and
// the time, ns, and ends after another.
package main

import (
	"bufio"
	"fmt"
	"iter"
	"os"
	"sync/atomic"
	"time"
)

var waits atomic.Int64

//go:noinline
func yields(yield func(int) bool) {
	for yield(int(waits.Add(1))) {
	}
}

// pulls takes a value of a coroutine every ms.
func pulls() {
	next, _ := iter.Pull(iter.Seq[int](yields))
	for {
		next()
		time.Sleep(time.Millisecond)
	}
}

//go:noinline
func plays(from, to chan int) {
	for n := range from {
		waits.Add(1)
		to <- n
	}
}

func main() {
	switch os.Args[1] {
	case "pull":
		go pulls()
	case "pingpong":
		a, b := make(chan int), make(chan int)
		go plays(a, b)
		go plays(b, a)
		a <- 1
	}
	begin := time.Now()
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	fmt.Println(waits.Load(), int64(time.Since(begin)))
	in.ReadString('\n')
}
