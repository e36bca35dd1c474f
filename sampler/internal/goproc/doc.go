// Package goproc makes stacks of the moments of a Go process: the calls of the thread,
// which goroutine runs, and the frames with methods and lines, inlined calls included.
//
// [Process] goes through these steps for a moment:
//
//  1. The kernel's chain is taken with its first caller repaired from the Go symbol
//     table. Without a chain, or where it does not reach a root, SP deltas lead through
//     the copied piece of stack.
//  2. Calls into C and back are crossed with the words that the runtime saved.
//  3. What the copy lacks is read from the process, within a budget of 32 MiB and 524,288 functions a second. A
//     stack of more than 2,048 functions keeps its ends.
//  4. A stack that does not reach a root then is truncated.
//  5. The goroutine is told from the register that holds its descriptor's address. Its
//     labels are read from there.
//
// Facts about the runtime were found in Go 1.18 to 1.27; the target's own Go version
// decides which of the facts of package gosym apply.
package goproc
