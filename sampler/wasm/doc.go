// Package wasm samples WebAssembly guests that run on wazero
// (github.com/tetratelabs/wazero v1.12.0) in this process. The guests' threads take their
// own samples, at safe points that the profiler writes into their bytecode. The paper's
// JIT compiler did the same (section 4.2).
//
//	profiler := wasm.New(runtime, wasm.Options{})
//	compiled, err := profiler.CompileModule(ctx, binary) // in place of runtime.CompileModule
//
// The runtime's configuration should have experimental.CoreFeaturesTailCall, which makes
// safe points cheaper. Everything else stays as without the profiler. The profiler is a
// [sampler.Source] that a manager runs. It works like this:
//
//  1. CompileModule gives the guest safe points (package rewrite), reads names and lines
//     of the original (package symbols), and listens on the functions that hosts
//     call.
//  2. An instance is a thread of [managed.Profiler] from its first entry until it is
//     closed. The marker sets a global of the guest. At its next safe point the guest
//     then calls a host function. A listener on that function sees wazero's stack and
//     takes the sample.
//  3. wazero's frames have no room for the mark that says that a sample has seen them.
//     But the guest numbers its activations along the stack, and reports when it gives
//     out a number again that a sample has seen. So the instance keeps marks beside the
//     stack, by number, and counts of activations are exact.
//  4. A call back through a host function has its own stack in wazero. The profiler notes
//     the frames below before the guest calls an imported function that may call back.
//
// The cellar, internal/, has the bytecode rewriter (rewrite), names and lines of a module (symbols), DWARF read
// within a budget (debuginfo), the binary format (format), and the benchmarks (wasmbench).
//
// # What is sampled
//
// The profiler samples CPU time, at marks that fall while the guest is entered. The time
// of a host function is its own: the safe point after its call finds it. Time that the
// entry of a function finds belongs to the function's caller. Host functions are frames
// named "module.function", without a position. Positions in guests are bytes in the
// original function's code; [ccmap.Names.Line] has their lines if the guest has DWARF.
//
// # What is cut
//
// The profiler does not know the stack below these calls, and puts [ccmap.TruncatedName]
// in its place:
//
//   - An instance that another module calls directly, by import or through a table, on
//     one stack of wazero's. Each of the two is a thread of its own.
//   - The first call back of a host function that had been called several times without
//     calling back. If the host makes it on another goroutine while its own goroutine
//     waits, activations below are counted again after it has returned.
//
// Activations of short functions without loops and calls (less than 64 bytes of code) are
// not counted: their caller's next safe point finds their time. Activations of other
// functions that reach no safe point after their entry are not counted either. A mark
// that comes after the last safe point of a host's call counts for the call's entry
// function.
//
// # Endings
//
// Traps, proc_exit, panics of host functions and contexts that end work as they do
// without the profiler. wazero reports a stack overflow to no listener. The profiler
// notices it at the instance's next entry, or when the host function returns that has
// called back. Until then the thread counts as one without safe points. No activation is
// counted twice.
//
// # Stopping the world
//
// Go cannot preempt native code of a guest. If a garbage collection, or anything else
// that stops the world, begins while a guest computes, all other goroutines stand still
// until the guest calls a host function of its own accord: in a loop without calls, for
// ever. That is so without the profiler: runtime.GC took as long as a guest that computed
// for 0.7 s, with GOMAXPROCS 2 (Go 1.26, wazero v1.12.0). Marks come from a goroutine
// that stands still, too, so the guest is not sampled meanwhile.
// [Options].CollectAtSamples makes collections harmless: the profiler itself collects,
// while every guest calls the host at each of its safe points. [Profiler.Stopping] does
// that for any other function that stops the world. The marker needs a processor:
// GOMAXPROCS should be at least 1 more than the number of guests that compute at a time.
// With GOMAXPROCS 1 a guest that calls no host function is never marked.
//
// # Memory
//
// A profiler keeps the description of each binary that it has compiled, and the
// rewritten binary, as long as it lives. It keeps an instance until the instance is
// closed.
package wasm
