// Serves is an HTTP server with four clients of its own, and measures the parts of its requests by its own clock. After
// a line on standard input it begins to measure, and after a second one it prints from when to when it has, and what:
// "NAME NUMBER".
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var clocks struct{ requests, backend, queue, all atomic.Int64 }

// measured adds the time of a part to a clock.
func measured(clock *atomic.Int64, part func()) {
	begin := time.Now()
	part()
	clock.Add(int64(time.Since(begin)))
}

//go:noinline
func backend() { time.Sleep(8 * time.Millisecond) }

//go:noinline
func queue() { <-time.After(4 * time.Millisecond) }

var sink int

//go:noinline
func works() {
	for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
		for i := range 1000 {
			sink += i * i
		}
	}
}

func handle(http.ResponseWriter, *http.Request) {
	clocks.requests.Add(1)
	measured(&clocks.all, func() {
		measured(&clocks.backend, backend)
		measured(&clocks.queue, queue)
		works()
	})
}

// monotonic returns the time, ns.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(l, http.HandlerFunc(handle))
	url := "http://" + l.Addr().String() + "/"
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 8
	for range 4 {
		go func() {
			for {
				r, err := http.Get(url)
				if err != nil {
					panic(err)
				}
				r.Body.Close()
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	in.ReadString('\n')
	c := &clocks
	begin, from := monotonic(), [...]int64{c.requests.Load(), c.backend.Load(), c.queue.Load(), c.all.Load()}
	fmt.Println("begun")
	in.ReadString('\n')
	fmt.Println(begin, monotonic())
	fmt.Println("requests", c.requests.Load()-from[0])
	fmt.Println("main.backend", c.backend.Load()-from[1])
	fmt.Println("main.queue", c.queue.Load()-from[2])
	fmt.Println("net/http.serverHandler.ServeHTTP", c.all.Load()-from[3])
	in.ReadString('\n')
}
