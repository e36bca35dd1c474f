// Workload is a target for the tests of package perf. It says "ready", waits
// for a line, does the work that its first argument names, and prints the result.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

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

// recurse calls itself n times, and then works.
//
//go:noinline
func recurse(n, spin int) int {
	if n == 0 {
		return work(spin)
	}
	return recurse(n-1, spin) + 1
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// calibrate returns the n for which work takes d of CPU time.
func calibrate(d time.Duration) int {
	for n := 1 << 16; ; n *= 2 {
		begin := cpuTime()
		work(n)
		if took := cpuTime() - begin; took > 50*time.Millisecond {
			return int(float64(n) * float64(d) / float64(took))
		}
	}
}

// calls calls work a number of times, each call taking the given CPU time.
func calls(wait func(), each time.Duration, count int) {
	n := calibrate(each)
	wait()
	for range count {
		work(n)
	}
	fmt.Println("calls", count)
}

// busy does a bit of everything on several goroutines, for twice that CPU time: on two CPUs that are free, for that time.
func busy(wait func(), d time.Duration) {
	wait()
	var wg sync.WaitGroup
	end := cpuTime() + 2*d
	for range 4 {
		wg.Go(func() {
			for cpuTime() < end {
				mixed()
			}
		})
	}
	wg.Wait()
}

func mixed() {
	counts := map[string]int{}
	for i := range 200 {
		counts[fmt.Sprint(i)] = work(i)
	}
	words := make([]string, 0, len(counts))
	for word := range counts {
		words = append(words, word)
	}
	sort.Strings(words)
	answer := make(chan int)
	go func() { answer <- recurse(30, 1000) + len(strings.Join(words, ",")) }()
	<-answer
	if f, err := os.Open("/dev/null"); err == nil {
		f.Close()
	}
}

// clock asks for the time, which is in the vDSO, for that CPU time.
//
//go:noinline
func clock(d time.Duration) {
	for end := cpuTime() + d; cpuTime() < end; {
		for range 10_000 {
			time.Now()
		}
	}
}

// kernel has the kernel do something, for that CPU time.
//
//go:noinline
func kernel(d time.Duration) {
	f, err := os.Open("/dev/zero")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for end := cpuTime() + d; cpuTime() < end; {
		f.Read(buf)
	}
}

// pages touches fresh pages and reads zeros, in turn, for that CPU time.
func pages(d time.Duration) {
	zeros, err := os.Open("/dev/zero")
	if err != nil {
		panic(err)
	}
	defer zeros.Close()
	const private = syscall.MAP_ANON | syscall.MAP_PRIVATE
	buf := make([]byte, 1<<20)
	for end := cpuTime() + d; cpuTime() < end; {
		fresh, err := syscall.Mmap(-1, 0, 4<<20, syscall.PROT_READ|syscall.PROT_WRITE, private)
		if err != nil {
			panic(err)
		}
		touch(fresh)
		syscall.Munmap(fresh)
		for range 32 {
			zeros.Read(buf)
		}
	}
}

// touch makes the kernel give memory to pages.
//
//go:noinline
func touch(pages []byte) {
	for i := 0; i < len(pages); i += 4096 {
		pages[i] = 1
	}
}

// threads starts OS threads that work, after the wait.
func threads(wait func(), count int) {
	n := calibrate(30 * time.Millisecond)
	wait()
	var wg sync.WaitGroup
	for range count {
		wg.Go(func() {
			runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
			work(n)
		})
	}
	wg.Wait()
	fmt.Println("threads", count)
}

// crowd starts OS threads that live at the same time. After the wait each works for a
// millisecond.
func crowd(wait func(), count int) {
	n := calibrate(time.Millisecond)
	var ready, done sync.WaitGroup
	ready.Add(count)
	begin := make(chan struct{})
	for range count {
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-begin
			work(n)
		})
	}
	ready.Wait()
	wait()
	close(begin)
	done.Wait()
}

// children starts processes that end at once, and works between.
func children(wait func(), count int) {
	n := calibrate(5 * time.Millisecond)
	wait()
	for range count {
		if err := exec.Command("/bin/true").Run(); err != nil {
			panic(err)
		}
		work(n)
	}
}

// grow starts goroutines whose stacks grow, until the time is over.
func grow(end time.Time) {
	for time.Now().Before(end) {
		var wg sync.WaitGroup
		wg.Go(func() { deepen(200) })
		wg.Wait()
	}
}

// deepen uses 200 bytes of the stack and more for each level.
//
//go:noinline
func deepen(depth int) (sum byte) {
	var used [200]byte
	used[depth%len(used)] = byte(depth)
	if depth > 0 {
		sum = deepen(depth - 1)
	}
	return sum + used[sum]
}

// pingPong lets two threads hand a byte to each other through pipes, for that CPU time.
func pingPong(d time.Duration) {
	var ping, pong [2]int
	if err := errors.Join(syscall.Pipe(ping[:]), syscall.Pipe(pong[:])); err != nil {
		panic(err)
	}
	go func() {
		runtime.LockOSThread()
		var b [1]byte
		for {
			syscall.Read(ping[0], b[:])
			syscall.Write(pong[1], b[:])
		}
	}()
	runtime.LockOSThread()
	var b [1]byte
	for end := cpuTime() + d; cpuTime() < end; {
		for range 100 {
			syscall.Write(ping[1], b[:])
			syscall.Read(pong[0], b[:])
		}
	}
}

// naps lets a thread leave its CPU many times.
func naps(count int) {
	runtime.LockOSThread()
	nap := syscall.NsecToTimespec(1000)
	for range count {
		syscall.Nanosleep(&nap, nil)
	}
}

// flood makes the kernel tell its name, or that it has mapped code, as often as it can, by so many
// threads, until it is killed. The code is of a file whose path is the argument; "": it has names only.
func flood(count int, path string) {
	for range count {
		go func() {
			runtime.LockOSThread()
			for {
				rename()
				if path != "" {
					remap(path)
				}
			}
		}()
	}
	select {}
}

// rename gives the thread a name (prctl(2), PR_SET_NAME).
func rename() {
	name := [16]byte{'f', 'l', 'o', 'o', 'd'}
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0)
}

// remap maps a file as code, many times.
func remap(path string) {
	f, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for range 1000 {
		code, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		syscall.Munmap(code)
	}
}

func main() {
	in := bufio.NewReader(os.Stdin)
	wait := func() {
		fmt.Println("ready")
		in.ReadString('\n')
	}
	number := func(i int) int {
		n, err := strconv.Atoi(os.Args[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	switch os.Args[1] {
	case "calls":
		calls(wait, time.Duration(number(2))*time.Millisecond, number(3))
	case "busy":
		busy(wait, time.Duration(number(2))*time.Millisecond)
	case "deep":
		n := calibrate(time.Duration(number(3)) * time.Millisecond)
		wait()
		recurse(number(2), n)
	case "leaves":
		wait()
		clock(time.Duration(number(2)) * time.Millisecond)
		kernel(time.Duration(number(2)) * time.Millisecond)
	case "read":
		wait()
		kernel(time.Duration(number(2)) * time.Millisecond)
	case "pages":
		wait()
		pages(time.Duration(number(2)) * time.Millisecond)
	case "threads":
		threads(wait, number(2))
	case "crowd":
		crowd(wait, number(2))
	case "children":
		children(wait, number(2))
	case "grow":
		wait()
		grow(time.Now().Add(time.Duration(number(2)) * time.Millisecond))
	case "naps":
		wait()
		naps(number(2))
		wait()
	case "pingpong":
		wait()
		pingPong(time.Duration(number(2)) * time.Millisecond)
		wait()
	case "flood":
		wait()
		flood(number(2), os.Args[3])
	case "exec":
		wait()
		work(calibrate(50 * time.Millisecond))
		if err := syscall.Exec("/bin/sleep", []string{"sleep", "60"}, nil); err != nil {
			panic(err)
		}
	case "exit":
		wait()
		os.Exit(number(2))
	}
}
