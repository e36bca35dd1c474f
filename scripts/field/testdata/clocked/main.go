// Clocked does work and knows the truth about it by the CPU clock of its own thread. It
// says "ready", waits for a line, works, and writes the truth.
//
//	clocked phases FIRST SECOND TOTAL PROFILE
//	    two phases in turn, each of its CPU time, until TOTAL is used; PROFILE is a
//	    profile of that by runtime/pprof. Prints the CPU time of either phase in ns.
//	clocked calls LEAST MOST TOTAL FILE
//	    calls of CPU times between LEAST and MOST, until TOTAL is used; FILE gets the
//	    CLOCK_MONOTONIC at the beginning of each, 8 bytes each.
//	clocked spin
//	    keeps one CPU busy until it is killed.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	clockThread    = 3 // CLOCK_THREAD_CPUTIME_ID
)

// clock reads a clock in ns.
func clock(id uintptr) int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// work burns CPU time without calling anything.
//
//go:noinline
func work(n int) int {
	x := 0
	for i := range n {
		x += i*i ^ x
	}
	return x
}

// calibrate returns the rounds of work in a microsecond: the most of several tries,
// because others use the processor, too.
func calibrate() float64 {
	const rounds = 1 << 20
	best := 0.0
	for range 20 {
		began := clock(clockThread)
		work(rounds)
		best = max(best, rounds*1e3/float64(clock(clockThread)-began))
	}
	return best
}

//go:noinline
func first(until int64, step int) {
	for clock(clockThread) < until {
		work(step)
	}
}

//go:noinline
func second(until int64, step int) {
	for clock(clockThread) < until {
		work(step)
	}
}

// phases works in turns that end at fixed times of the CPU clock, so that a phase that
// was too long does not shorten another.
func phases(each [2]time.Duration, total time.Duration, profile *os.File) {
	step := int(20 * calibrate())
	wait()
	if err := pprof.StartCPUProfile(profile); err != nil {
		panic(err)
	}
	began := clock(clockThread)
	var used [2]int64
	at, due := began, began
	for at-began < int64(total) {
		due += int64(each[0])
		first(due, step)
		middle := clock(clockThread)
		due += int64(each[1])
		second(due, step)
		end := clock(clockThread)
		used[0], used[1], at = used[0]+middle-at, used[1]+end-middle, end
	}
	pprof.StopCPUProfile()
	fmt.Println(used[0], used[1])
}

// calls makes calls of work.
func calls(least, most, total time.Duration, file *os.File) {
	rate := calibrate() / 1e3
	began := make([]int64, 0, total/least+1)
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	wait()
	for end := clock(clockThread) + int64(total); clock(clockThread) < end; {
		n := int(rate * (float64(least) + random.Float64()*float64(most-least)))
		began = append(began, clock(clockMonotonic))
		work(n)
	}
	out := bufio.NewWriter(file)
	for _, at := range began {
		binary.Write(out, binary.LittleEndian, at)
	}
	if err := out.Flush(); err != nil {
		panic(err)
	}
}

func wait() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func duration(i int) time.Duration {
	d, err := time.ParseDuration(os.Args[i])
	if err != nil {
		panic(err)
	}
	return d
}

func main() {
	runtime.LockOSThread()
	if os.Args[1] == "spin" {
		for {
			work(1 << 20)
		}
	}
	file, err := os.Create(os.Args[5])
	if err != nil {
		panic(err)
	}
	defer file.Close()
	switch os.Args[1] {
	case "phases":
		phases([2]time.Duration{duration(2), duration(3)}, duration(4), file)
	case "calls":
		calls(duration(2), duration(3), duration(4), file)
	}
}
