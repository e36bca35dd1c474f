// Stuck has goroutines that wait for ever: of a leak, and two for each other's mutex. Others go on. The collector notes
// them before the program says that it is ready.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

func leaks(never chan int) { <-never }

func waitsLater(never chan int) { <-never }

func locksBoth(outer, inner *sync.Mutex, met *sync.WaitGroup) {
	outer.Lock()
	met.Done()
	met.Wait()
	inner.Lock()
}

func goesOn() {
	for {
		time.Sleep(2 * time.Millisecond)
	}
}

func reads(from *os.File) { from.Read(make([]byte, 1)) }

func main() {
	never := make(chan int)
	for range 5 {
		go pprof.Do(context.Background(), pprof.Labels("job", "leak"), func(context.Context) { leaks(never) })
	}
	var a, b sync.Mutex
	var met sync.WaitGroup
	met.Add(2)
	go locksBoth(&a, &b, &met)
	go locksBoth(&b, &a, &met)
	go goesOn()
	from, to, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	go reads(from)
	met.Wait()
	time.Sleep(10 * time.Millisecond) // so that the collector finds all waiting

	// What one collection has noted, a later note of another goroutine proves.
	for range 8 {
		runtime.GC()
		go waitsLater(never)
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	to.Close()
	_ = never
}
