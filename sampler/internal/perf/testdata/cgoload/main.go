// Cgoload is a program that every Go version from 1.18 on builds. It spends its time
// in C, compiled as gcc -O2 does, without frame pointers, 0.1 s of CPU time for each of its
// arguments:
//
//	cgoload loop    C that uses the frame pointer's register for a number
//	cgoload sort    qsort, which calls a C function
//	cgoload back    qsort, which calls a Go function
//	cgoload deep    recursive C that calls back a Go function that calls it
//	cgoload asm     assembly without call frame information, called by C
//	cgoload thread  threads that C has started, which call Go now and then
//	cgoload walk    Go that reads memory, which built with -race calls C each time
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer -fasynchronous-unwind-tables
#cgo LDFLAGS: -lpthread
long outer(long n);
long sortByC(int *v, int n);
long sortByGo(int *v, int n);
long recurse(long n);
long callBare(long n);
long deepest(long n);
void threads(void);
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

//export goCompare
func goCompare(a, b unsafe.Pointer) C.int {
	goWork(300) // so long that samples find it
	x, y := *(*C.int)(a), *(*C.int)(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

//export goRecurse
func goRecurse(n C.long) {
	if n > 0 {
		C.recurse(n)
		return
	}
	C.deepest(200_000)
	goWork(200_000)
}

//export goWork
func goWork(n C.long) C.long {
	for i, until := C.long(0), n; i < until; i++ {
		n += n * i >> 3
	}
	return n
}

var numbers [1000]C.int

//go:noinline
func loop() { C.outer(2_000_000) }

//go:noinline
func sort() { C.sortByC(&numbers[0], C.int(len(numbers))) }

//go:noinline
func back() { C.sortByGo(&numbers[0], C.int(len(numbers))) }

//go:noinline
func deep() { C.recurse(5) }

//go:noinline
func bare() { C.callBare(2_000_000) }

//go:noinline
func walk() {
	for n := 0; n < 100; n++ {
		for i := range numbers {
			numbers[i]++
		}
	}
}

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for _, mode := range os.Args[1:] {
		if mode == "thread" {
			C.threads()
			continue
		}
		call := map[string]func(){"loop": loop, "sort": sort, "back": back, "deep": deep, "asm": bare, "walk": walk}[mode]
		for end := cpuTime() + 100*time.Millisecond; cpuTime() < end; {
			call()
		}
	}
}

// cpuTime returns the CPU time that the program has used: on a busy machine it is
// sampled as often as on a quiet one.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
