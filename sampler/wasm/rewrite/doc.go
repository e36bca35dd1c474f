// Package rewrite adds safe points to WebAssembly modules, so that their
// instances can be sampled from inside.
//
// It is what Rotor's JIT compiler did for the paper (section 4.2), done to the
// bytecode before wazero compiles it:
//
//  1. The module is parsed; what is malformed or unknown is refused with its
//     offset and the reason.
//  2. All code is scanned once, to give every function a Kind.
//  3. The code is copied, with polls at entries, at loop heads and behind calls
//     of imports. With Options.Marks it keeps the depth at entries and exits.
//  4. Function indices are shifted everywhere: the added imports come behind the
//     module's own.
//  5. Names and lines are moved to where the code is now, so that wazero's stack
//     traces read as before.
//
// The package is pure: bytes in, bytes out; a Module may be read by any
// goroutine.
//
// # Interface to the host
//
// The rewritten module imports two functions from HostModule:
//
//	sample(reason i32)        a safe point was reached while Mark was set
//	call(site, element i32)   an indirect call is about to be made while Calls was set
//
// and exports mutable globals, under names that no guest uses; the guest's
// native code loads and stores them plainly:
//
//	ccmapd.mark      i32  1 at first. Guest: reads it at every safe point. Host: sets it to 1
//	                      to have a sample taken, to 0 when it has taken it.
//	ccmapd.calls     i32  only with Options.Calls, 0 at first. Guest: reads it at every
//	                      indirect call. Host: sets it to 1 while it wants calls.
//	ccmapd.depth     i32  only with Options.Marks, 0 at first. Guest: the number of activations of Counted functions
//	                      on the stack. Host: reads it at a sample; restores it at Abort of
//	                      an entry to what it was at its Before.
//	ccmapd.visited   i32  only with Options.Marks, 0 at first. The depth of the deepest activation that is still
//	                      alive and that the host has seen in a sample. Host: sets it at a sample.
//	                      Guest: lowers it at exits.
//	ccmapd.announce  i64  all ones at first. Guest: tests a bit of it before every call of an
//	                      import that Options.Announce chose. Host: clears and sets bits.
//	ccmapd.executed  i64  only with Options.Exact, 0 at first. Guest: the instructions of the
//	                      original that were executed. A run of instructions without a branch,
//	                      a label or a call is added when it begins.
//
// Safe points are polls:
//
//	if mark != 0 { sample(reason) }
//
// They stand at the entry of every function that is not Bare (ReasonEntry; not
// where every path runs straight to a loop's head), at every loop's head
// (ReasonLoop; of innermost loops that are short and call nothing, once in 256
// iterations), and behind every call of an import (AfterImport(k); none behind tail
// calls), which is where the time that a host function took is found. A call of
// import k that Options.Announce chose is preceded by
//
//	if announce & Announced[k] != 0 { sample(BeforeImport(k)) }
//
// # Activations
//
// This is with Options.Marks. Without it there are polls and nothing else: every
// frame that Module.Function knows is one of the guest's, and whether a sample has
// seen it is unknown.
//
// A Counted function begins with depth++, in front of its poll, and keeps the
// result d in a local. All its exits (end, return, branches to the outermost
// label, tail calls) do
//
//	depth = d-1; if visited > depth { visited = depth }
//
// and behind every call of an import
//
//	depth = d; if visited > depth { visited = depth }
//
// so that depth heals after activations that ended without an exit (traps that a
// host function caught, snapshots restored). A Polled function only does
//
//	if visited > depth { visited = depth }
//
// at its exits. At a sample in function f, let n be depth, plus 1 if f is
// Polled: n activations are instrumented. Those numbered above visited have not
// been seen by any sample, the others are the same activations as at the sample
// before. Then the host sets visited to n.
// The invariants at every call of an import: visited <= depth, and at a sample
// in a Polled function visited <= depth+1.
//
// A frame of wazero's stack iterator is an instrumented activation if
// Module.Function knows it and its Kind is Counted, or Polled and innermost; all
// other frames are thunks, host functions, or other modules'. With
// tail calls, wazero replaces the caller's frame, and so does the depth. Where
// wazero makes a tail call a plain one, because not all of the parameters and
// results are passed in registers, it is counted as that.
//
// # Entries
//
// A host puts a listener on the functions of Module.Entries: the exported ones
// and the start function, so that it knows when the guest is entered and left,
// and with what trap. A function that the module also calls or refers to itself
// and one that makes tail calls, of which wazero tells no listener that they
// return, is exported through a thunk, a function of the same name that calls it, so
// that only calls from outside pass there. Where a trap unwinds through a thunk,
// wazero's trace has one line more than without the rewriting: the entry
// function stands in it twice. Functions that another module gets through a
// table are entered without the host's knowledge.
//
// # What it costs
//
// Every cycle of execution passes a safe point: a load and two branches, and near
// them registers that wazevo spills for the call. The processor time of the guest's
// thread, with marks that are never set, against the plain run (wazero v1.12.0,
// amd64, medians of 9 alternating runs of 100 ms, on a machine that did other things
// too):
//
//	                       polls  + calls  + marks  + both
//	matrix multiplication   -10 %    -9 %    -13 %    -14 %
//	mandelbrot, C            -1 %    -1 %     -1 %     -3 %
//	shapes, C: indirect      +1 %    +2 %     +7 %    +13 %
//	parser, C               +21 %   +22 %    +26 %    +24 %
//	queens, Go               +6 %    +3 %     +7 %    +11 %
//	JSON, Go                 +6 %    +8 %    +12 %    +14 %
//	SQLite                   +8 %   +11 %    +12 %    +13 %
//	QuickJS                  +8 %    +8 %    +18 %    +18 %
//	Fibonacci, recursive    +38 %   +39 %    +33 %    +31 %
//
// Fibonacci does nothing but call; the first two gain more by how tight loops are
// written (loops.go) than they pay. Bare functions pay nothing, Polled ones no depth. Marking a local in
// each activation instead, with a flag tested behind every call, costs more: 14 %
// against 10 % (JSON, Go), 69 % against 33 % (Fibonacci), on another day. A poll at
// the exit, in one test with visited, in place of that at the entry, costs about
// what it saves.
//
// # What is refused
//
// Exception handling, typed function references, GC types, several memories,
// 64-bit memories, relaxed SIMD and tags; a function of more than 50,000 locals; a table
// of more than 10,000,000 elements; modules
// of 2 GiB; modules that import from HostModule or export the globals above; and
// whatever is malformed, or names something that the module has not but that
// the rewriting would add. Types are not checked: wazero does that.
//
// # Calls back
//
// A call back of an entry by a host function runs on a stack of its own in
// wazero: at a sample in it the host sees only the inner segment, and can only
// know the outer one if it has seen it before, in the sample called with
// BeforeImport: announce is for that. It costs a walk for each call of an import, so
// the host clears the bits of imports that it has seen not to call back. Depth
// and visited go on across the segments: Before of the inner entry reads in
// depth how many activations stand below.
package rewrite
