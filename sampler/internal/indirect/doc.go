// Package indirect catches calls of interface methods and function values, so that
// their targets are known. Samples show which of them are hot, and a [Catcher] sets
// hardware breakpoints on them by turns:
//
//  1. [Finder] disassembles the function around a return address, once, up to it: does
//     a call through a register end there, and where was the register loaded from?
//  2. Sites counts such calls with the threads that were met there. They take turns, the
//     hottest most often, interfaces before function values, and sites rarely that
//     yield nothing or have always called the same.
//  3. In a burst, a breakpoint is set on the call whose turn it is, on one or two of its
//     threads, for some calls or milliseconds.
//  4. The next burst waits for as long as the last one's calls take of the budget
//     on average, a random time of exponential distribution.
//
// An engine offers stacks to [Catcher.Watch] and turns to [Catcher.Turn], and receives
// the calls. Everything belongs to the engine's goroutine, except [Counts].
package indirect
