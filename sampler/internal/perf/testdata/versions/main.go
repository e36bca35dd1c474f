// Versions is a program that every Go version from 1.18 on builds. It says
// "ready", waits for a line, and works like other programs for about half a second of CPU
// time: it calls, sorts, allocates, and passes values between goroutines, which have
// labels. It writes a CPU profile to the file that its argument names, and then works twice
// as long.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

type shape interface{ area(n int) int }

type square struct{ side int }

//go:noinline
func (s *square) area(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * s.side
	}
	return sum
}

//go:noinline
func mapped[T any](from []T, f func(T) T) []T {
	to := make([]T, 0, len(from))
	for _, v := range from {
		to = append(to, f(v))
	}
	return to
}

// deep calls itself with frames so large that stacks must grow.
//
//go:noinline
func deep(n int) int {
	var room [256]byte
	room[n&255] = 1
	if n > 0 {
		return deep(n-1) + int(room[n&127])
	}
	return 1
}

//go:noinline
func round(s shape) int {
	words := strings.Fields(strings.Repeat("the quick brown fox jumps over the lazy dog ", 50))
	sort.Strings(words)
	count := map[string]int{}
	for _, w := range mapped(words, strings.ToUpper) {
		count[w]++
	}
	return s.area(100000) + deep(200) + len(count)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	work := 500 * time.Millisecond
	if len(os.Args) > 1 {
		work *= 2
		f, err := os.Create(os.Args[1])
		if err != nil {
			panic(err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			panic(err)
		}
		defer pprof.StopCPUProfile()
	}
	results := make(chan int)
	var workers sync.WaitGroup
	for i := 1; i <= 4; i++ {
		s := &square{i}
		workers.Add(1)
		kind := "heavy"
		if i == 1 {
			kind = "light"
		}
		go pprof.Do(context.Background(), pprof.Labels("worker", fmt.Sprint(i), "kind", kind), func(context.Context) {
			defer workers.Done()
			for cpuTime() < work {
				results <- round(s)
			}
		})
	}
	go func() {
		workers.Wait()
		close(results)
	}()
	sum := 0
	for r := range results {
		sum += r
	}
	fmt.Println(sum)
}
