// Package starlark samples programs in Starlark, as go.starlark.net interprets them,
// through sampler/managed. The interpreter is used unchanged: it exports everything that
// the package needs.
//
// An embedder makes a profiler, gives it to manager.Start as the source, and adds two
// lines where it makes a thread:
//
//	profiler := managed.New(managed.Options{})
//	…
//	profiled := profile.Attach(profiler, thread, profile.Options{})
//	defer profiled.Detach()
//
// with this package imported as profile, beside the interpreter's own.
//
// A sample comes about like this:
//
//  1. The interpreter counts the steps of a thread, one for every instruction. From a limit
//     on it calls Thread.OnMaxSteps before each step, on the thread's own goroutine
//     (starlark/interp.go, CallInternal). [Attach] sets the limit to the next safe point: 100
//     steps ahead on average, at random, or each step if [Options].Exact. The embedder's own
//     limit and OnMaxSteps work as before.
//  2. If the profiler has marked the thread, its stack is walked at the safe point.
//  3. If exact, the depth of the stack is noted at each step. So the package knows which
//     activations have lived since the last sample, and the walk ends at the first
//     one that an earlier sample has seen.
//
// # Cost and exactness
//
// Measured on a shared Xeon at 2 virtual CPUs, Go 1.26, with 100 marks a second, in CPU
// time of programs that call, calculate, make strings, and sort (BenchmarkSlowdown, 8
// runnable processes beside it):
//
//	                     Options{}               Options{Exact: true}
//	slowdown             0 to 5 %                9 to 90 %
//	time is counted at   a place at most 199     the line that took it
//	                     steps later
//	activations          fewer than there were   as below, "Callbacks"
//	repetitions on top   unknown                 exact
//	calls caught         none                    all that are wanted
//
// With Options{} samples have no marks (Fresh and Top are unknown). So the map finds new
// activations by comparing stacks, and says that they are inexact. It counts the
// activations on a stack again if its thread is attached a second time during one run.
// The time of a long builtin is counted at the next safe point, after the call.
//
// # Positions
//
// The interpreter notes its position after the safe point, so a frame is still at the
// instruction before. If exact, that is correct: the mark fell while that instruction
// executed. Only instructions that may fail have lines (setPos in
// internal/compile/compile.go). Another instruction has the line of the one before. The
// time of a builtin that calls nothing back is on the line that calls it. The time of a
// function's last instruction is on the line of the function's call. Offsets are lines
// from the function's declaration ([ccmap.CoordinateLine]).
//
// # Names
//
// A function is "file:name", with "@line:column" of its declaration if it is a lambda or
// nested. A file is "file:<toplevel>". A builtin has its own name, after the exact type
// of its receiver if it has one. Functions have bodies, hashes of their code ([ccmap.Method]);
// a program is read for them once, at the first sample in one of its functions. Builtins are on the stack of a sample only if they call
// functions back.
//
// # Callbacks
//
// This section is about exact threads. The end of an activation shows when its caller
// executes a step next. Only Go code, which takes no steps, may call again before that: a
// builtin such as sorted, which calls its key function in turn; the host, which calls one
// function of a module after another; Load. Then the innermost function, and the builtins
// that called it, are in doubt. A function that waits for a call never is. The innermost
// activation is certainly new if it has another function, or if a local variable that had
// been assigned at an earlier step is unassigned now. Otherwise it counts as the old one.
// So do activations on a stack whose thread is attached again. So none is counted twice,
// and counts are lower bounds: for a key function without local variables a sample counts
// one activation for each call of sorted, while samples fall into it. Everything else is
// exact: time, samples, contexts, and the activations of functions that Starlark
// functions call.
package starlark
