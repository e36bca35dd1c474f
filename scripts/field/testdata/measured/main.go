// Measured is a server for 'ccmapd pgo measure'. A request is a unit of work: it takes ROUNDS of a loop, and then MORE
// rounds, whose CPU time the server knows by its threads' own clocks.
//
//	measured ROUNDS MORE
//
// It prints "serving ADDRESS", and counts at /metrics.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// threadClock returns the CPU time of the thread in ns.
func threadClock() int64 {
	const clockThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThread, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// work uses CPU time without calling anything.
//
//go:noinline
func work(rounds int) int {
	x := 0
	for i := range rounds {
		x += i*i ^ x
	}
	return x
}

var requests, added atomic.Int64 // added: CPU time of the second loop, ns

// handle handles a request. The thread stays the same while its clock is read.
func handle(w http.ResponseWriter, rounds, more int) {
	runtime.LockOSThread()
	sum := work(rounds)
	began := threadClock()
	sum += work(more)
	added.Add(threadClock() - began)
	runtime.UnlockOSThread()
	requests.Add(1)
	fmt.Fprintln(w, sum)
}

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	more, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { handle(w, rounds, more) })
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE requests_total counter\nrequests_total %d\n", requests.Load())
		fmt.Fprintf(w, "# TYPE added_ns_total counter\nadded_ns_total %d\n", added.Load())
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("serving", l.Addr())
	log.Fatal(http.Serve(l, nil))
}
