// Package wasm samples WebAssembly guests that run on wazero
// (github.com/tetratelabs/wazero v1.12.0) in this process. Their threads take their
// own samples, at safe points that are written into their bytecode, which is what the
// paper's JIT compiler did (section 4.2).
//
//	profiler := wasm.New(runtime, wasm.Options{})
//	compiled, err := profiler.CompileModule(ctx, binary) // in place of runtime.CompileModule
//
// The runtime's configuration should have experimental.CoreFeaturesTailCall, by which
// safe points cost less. All else is as without the profiler, which is a [sampler.Source]
// to be run by a manager. It works like this:
//
//  1. CompileModule gives the guest safe points (package rewrite), reads names and lines
//     of the original (package symbols), and listens on the functions by which a host
//     enters the guest.
//  2. An instance is a thread of [managed.Profiler] from its first entry until it is
//     closed. The marker sets a global of the guest, which then calls a host function at
//     its next safe point. A listener there sees wazero's stack and takes the sample.
//  3. wazero's frames have no room for the mark that says that a sample has seen them.
//     But the guest numbers its activations along the stack, and tells when a number
//     that a sample has seen is given anew; so marks are kept beside the
//     stack, by number, and activations are exact.
//  4. A call back through a host function has a stack of its own in wazero. What lies
//     below is noted before imported functions are called that may call back.
//
// # What is sampled
//
// CPU time, at marks which fall while the guest is entered: what host functions take
// is theirs, found at the safe point behind their call; what is found at the entry of
// a function is its caller's. Host functions are frames named
// "module.function", without a position. Positions in guests are bytes in the original
// function's code; [ccmap.Names.Line] has their lines where the guest has DWARF.
//
// # What is cut
//
// The stack below is unknown, and [ccmap.TruncatedName] stands in its place, of:
//
//   - an instance that another module calls directly, by import or through a table,
//     on one stack of wazero's. Each of the two is a thread of its own.
//   - the first call back of a host function that had been called several times without.
//     Where the host makes it on another goroutine, while its own waits, activations
//     below are counted anew when it has returned.
//
// Activations of short functions without loops and calls (less than 64 bytes of code)
// are not counted, and their time is found at their caller's next safe point. Nor are
// those of others that reach no safe point but that at their entry. Marks that find a call of the host's behind
// its last safe point are counted on its entry function.
//
// # Endings
//
// Traps, proc_exit, panics of host functions and contexts that end are the guest's own
// matter: it behaves as it does without the profiler. Of a stack overflow wazero tells
// no listener: the profiler finds out at the instance's next entry, or when the host
// function returns that has called back, and until then counts the thread as one
// without safe points. No activation is counted anew.
//
// # Stopping the world
//
// Go cannot preempt native code of a guest: where a collection of garbage, or anything
// else that stops the world, begins while a guest computes, all other goroutines stand
// still until it calls a host function of its own accord, for a loop without calls for
// ever. That is so without the profiler: runtime.GC took as long as a guest that
// computed for 0.7 s, with GOMAXPROCS 2 (Go 1.26, wazero v1.12.0). Marks come from a
// goroutine that stands still, too, so that the guest is not sampled meanwhile.
// [Options].CollectAtSamples makes that harmless: the profiler collects while it has
// every guest call the host at each of its safe points. [Profiler.Stopping] does that
// for any other function that stops the world.
// The marker needs a processor: GOMAXPROCS is to be at least 1 more than the number
// of guests that compute at a time. With GOMAXPROCS 1 a guest that calls no host
// function is never marked.
//
// # Memory
//
// A profiler keeps what it knows of each different binary that it has compiled, the
// rewritten one included, as long as it lives itself; of an instance until it is
// closed.
package wasm
