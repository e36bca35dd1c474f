// Truths does work whose shares are known: by ten functions, each in proportion to its weight. It says "ready",
// waits for a line, works, and writes a profile of that by runtime/pprof.
//
//	truths serial WEIGHTS TOTAL PROFILE
//	    one goroutine, for TOTAL of CPU time, in rounds of about a millisecond
//	truths apart WEIGHTS TOTAL PROFILE
//	    one goroutine for each function, about TOTAL of CPU time together
//
// WEIGHTS are whole numbers with commas between them.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// used returns the CPU time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// calibrate returns the steps in a microsecond of CPU time.
func calibrate() int {
	const steps = 1 << 26
	began := used()
	f1(steps)
	return max(1, int(steps/(used()-began).Microseconds()))
}

func serial(steps []int, total time.Duration) {
	for end := used() + total; used() < end; {
		for i, n := range steps {
			functions[i](n)
		}
	}
}

func apart(steps []int, rounds int) {
	var all sync.WaitGroup
	for i, n := range steps {
		all.Go(func() {
			for range rounds {
				functions[i](n)
			}
		})
	}
	all.Wait()
}

func main() {
	weights := strings.Split(os.Args[2], ",")
	total, err := time.ParseDuration(os.Args[3])
	check(err)
	profile, err := os.Create(os.Args[4])
	check(err)
	const unit = 20 // µs of a weight of 1
	speed, sum := calibrate(), 0
	steps := make([]int, len(weights))
	for i, text := range weights {
		w, err := strconv.Atoi(text)
		check(err)
		steps[i] = w * unit * speed
		sum += w
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	check(pprof.StartCPUProfile(profile))
	if os.Args[1] == "serial" {
		serial(steps, total)
	} else {
		apart(steps, int(total.Microseconds())/unit/sum)
	}
	pprof.StopCPUProfile()
	check(profile.Close())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
