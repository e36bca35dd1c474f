// Package activation tells whether the innermost activation of a sample is the
// activation of the goroutine's last sample: by comparing the two stacks and, where they
// are alike, by a watchpoint on the return address, which any new call writes.
//
// [Judge] gives the verdicts. It knows no engine and no language: stacks come as
// [process.Stack], and watchpoints as [Watch].
package activation
