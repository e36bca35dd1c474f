// Cgoload spends its time in C, compiled without frame pointers, called from Go.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
__attribute__((noinline)) static long inner(long n, long s) {
	for (long i = 0; i < n; i++) { s = s * 31 + i; __asm__ volatile("" : "+r"(s) : : "rbp"); }
	return s;
}
__attribute__((noinline)) static long outer(long n) { return inner(n, 1) + inner(n, 2); }
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

//go:noinline
func callC(n int) int { return int(C.outer(C.long(n))) }

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for end := time.Now().Add(600 * time.Millisecond); time.Now().Before(end); {
		callC(5_000_000)
	}
}
