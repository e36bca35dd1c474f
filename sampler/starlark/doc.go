// Package starlark samples programs in Starlark, as go.starlark.net interprets
// them, through sampler/managed. The interpreter is used as it is; all that is
// needed of it is exported.
//
// An embedder makes a profiler, which it gives to manager.Start as the source, and
// adds two lines where it makes a thread:
//
//	profiler := managed.New(managed.Options{})
//	…
//	profiled := profile.Attach(profiler, thread, profile.Options{})
//	defer profiled.Detach()
//
// with this package imported as profile, beside the interpreter's own.
//
// How a sample comes about:
//
//  1. The interpreter counts the steps of a thread, one for every instruction, and
//     from a limit on calls Thread.OnMaxSteps before each, on the thread's own
//     goroutine (starlark/interp.go, CallInternal). [Attach] sets the limit to the
//     next safe point: 100 steps ahead on average, at random, or each step if
//     [Options].Exact. A limit and an OnMaxSteps of the embedder's own are found out
//     and work as before.
//  2. If the profiler has marked the thread, its stack is walked at the safe point.
//  3. If exact, the depth of the stack is noted at each step. Thus it is known which
//     activations have lived since the last sample, and the walk ends at the first
//     one that an earlier sample has seen.
//
// # Cost and exactness
//
// Measured on a shared Xeon at 2 virtual CPUs, Go 1.26, with 100 marks a second, in
// CPU time of programs that call, calculate, make strings, and sort
// (BenchmarkSlowdown, 8 runnable processes beside it):
//
//	                     Options{}               Options{Exact: true}
//	slowdown             0 to 5 %                9 to 90 %
//	time is counted at   a place at most 199     the line that took it
//	                     steps later
//	activations          fewer than there were   as below, "Callbacks"
//	repetitions on top   unknown                 exact
//	calls caught         none                    all that are wanted
//
// With Options{} samples have no marks (Fresh and Top are unknown), so that the map
// finds new activations by comparing stacks, and says that they are inexact. But what
// is on the stack of a thread that is attached for a second time during one run, it
// takes for new. The time of a long builtin is counted where the next safe point is,
// behind the call.
//
// # Positions
//
// The interpreter notes where it is after the safe point, so a frame is still at the
// instruction before. If exact, that is as it should be: the mark fell while that one
// was executed. Only instructions that may fail have lines (setPos in
// internal/compile/compile.go); another one has that of the one before. The time of a
// builtin that calls nothing back is that of the line
// that calls it; the time of a function's last instruction is that of the call which
// it returned to. Offsets are lines from the function's declaration
// ([ccmap.CoordinateLine]).
//
// # Names
//
// A function is "file:name", with "@line:column" of its declaration if it is a
// lambda or nested; a file is "file:<toplevel>". A builtin has its own name, behind
// the type of its receiver if it has one, which is exact. Builtins are on the stack
// of a sample only if they call functions back.
//
// # Callbacks
//
// This is of exact threads. An activation that ends is noticed, because its caller executes a step next. Only
// if the caller is Go code, which takes no steps, may it call again before the
// profiler hears of it: a builtin such as sorted, which calls its key function in
// turn; the host, which calls one function of a module after another; Load. Then
// the innermost function is in doubt, and the builtins that called it; never a function
// that waits for a call. It is
// known to be a new activation if it is another function, or if a local variable
// that had been assigned at an earlier step is unassigned now. Otherwise it is
// taken for the old one, as are the activations on a stack whose thread is attached
// again, so that none is ever counted twice and the counts
// are lower bounds: of a key function without local variables a sample counts one
// activation for each call of sorted, while samples fall into it. Nothing else
// is inexact: time, samples and contexts are not concerned, and the activations of
// functions that Starlark functions call are exact.
package starlark
