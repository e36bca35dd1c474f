// Package rounds is the frame of the Go guests: a program does a fixed amount of work, as
// often as its argument says, on its main goroutine alone.
//
// Go's WebAssembly code unwinds the whole stack of the VM when it changes to another
// goroutine or grows a goroutine's stack (cmd/internal/obj/wasm, Go 1.26), and rewinds it
// at the next call. Then a host sees only the innermost functions. Programs that stay on
// one goroutine nearly always show whole stacks.
package rounds

import (
	"fmt"
	"os"
	"strconv"
)

// Repeat runs round as often as the first argument of the command line says and prints
// that number. It ends the program if the argument is not a number above 0.
func Repeat(round func()) int {
	if len(os.Args) != 2 {
		fail("one argument is needed: the number of rounds")
	}
	n, err := strconv.Atoi(os.Args[1])
	if err != nil || n < 1 {
		fail(fmt.Sprintf("%q is not a number of rounds", os.Args[1]))
	}
	for range n {
		round()
	}
	fmt.Println("rounds", n)
	return n
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(2)
}
