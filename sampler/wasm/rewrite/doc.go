// Package rewrite adds safe points to WebAssembly modules, so that their
// instances can be sampled from inside.
//
// It is what Rotor's JIT compiler did for the paper (section 4.2), done to the
// bytecode before wazero compiles it:
//
//  1. The module is parsed; what is malformed or unknown is refused with its
//     offset and the reason.
//  2. All code is scanned once, to give every function a Kind.
//  3. The code is copied, with polls at entries, in loops and behind calls of imports.
//     With Options.Marks every activation gets a number. Go's jumps become shorter
//     (dispatch.go).
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
//	sample(reason, number i32)         a safe point was reached while Mark was set
//	call(site, element, number i32)    an indirect call is about to be made while Calls was set
//
// and exports mutable globals, under names that no guest uses; the guest's
// native code loads and stores them plainly:
//
//	ccmapd.mark      i32  1 at first. Guest: reads it at safe points. Host: sets it to 1
//	                      to have a sample taken, to 0 when it has taken it.
//	ccmapd.limit     i32  only with Options.Marks, AllNumbers at first. Guest: compares it
//	                      with every new activation's number. Host: sets it to AllNumbers
//	                      behind Mark = 1, to what Visited is behind Mark = 0.
//	ccmapd.visited   i32  only with Options.Marks, 0 at first. No activation of a higher
//	                      number that is on the stack has been seen by the host in a
//	                      sample. Host: sets it at a sample. Guest: lowers it when a
//	                      number is given anew.
//	ccmapd.depth     i32  only with Options.Marks, 0 at first. The number of the activation
//	                      that calls. Guest: sets it before calls that give the callee its
//	                      number in no other way; at other times it may be any. Host: sets
//	                      it to 0 at an entry from outside, and at the end of a call back
//	                      to what it was at its beginning.
//	ccmapd.calls     i32  only with Options.Calls, 0 at first. Guest: reads it at every
//	                      indirect call. Host: sets it to 1 while it wants calls.
//	ccmapd.announce  i64  all ones at first. Guest: tests a bit of it before every call of an
//	                      import that Options.Announce chose. Host: clears and sets bits.
//	ccmapd.executed  i64  only with Options.Exact, 0 at first. Guest: the instructions of the
//	                      original that were executed. A run of instructions without a branch,
//	                      a label or a call is added when it begins.
//
// Safe points are polls:
//
//	if mark != 0 { sample(reason, number) }
//
// They stand
//
//   - at the entry of every function that is not Bare (ReasonEntry);
//   - in front of the branches back to a loop's head that may close a cycle without
//     another safe point (ReasonLoop). Innermost loops that are short and call nothing
//     poll once in 256 iterations;
//   - with Options.TailCalls in front of a function's exits (ReasonLoop), but for
//     branches to its outermost label, if it loops or is not short; without it only if
//     it calls nothing and its loops are of the kind that seldom polls;
//   - behind every call of an import (AfterImport(k); none behind tail calls), which is
//     where the time that a host function took is found.
//
// A call of import k that Options.Announce chose is preceded by
//
//	if announce & Announced[k] != 0 { sample(BeforeImport(k), number) }
//
// # Activations
//
// This is with Options.Marks. Without it there are polls and nothing else: every number
// is 0, every frame that Module.Function knows is one of the guest's, and whether a
// sample has seen it is unknown.
//
// Every activation of a Polled function has a number: 1 more than its caller's, its
// caller's own behind a tail call. The entry's poll is
//
//	if limit >= number {
//		if visited >= number { visited = number - 1 }
//		limit = visited
//		if mark != 0 { limit = AllNumbers; sample(ReasonEntry, number) }
//	}
//
// so that one comparison asks whether a sample is due, and whether another activation
// of that number has been seen: that one has ended, however it ended. At a sample the
// stack has number activations, of which those up to min(visited, number) are the same
// as at the sample before; the host sets visited to number. Nothing has to be done when
// they end.
//
// With Options.TailCalls what is done in there is a stub's work, which replaces the
// function's frame and then enters it again, with a number whose highest bit is set, so
// that it does not poll again. Callees get the number without the bit; the host may find
// it in the number of a sample.
//
// The number is a function's last parameter, one more than it had, and stays in a
// register for the most part. Where the type must remain (functions that a table holds,
// that hosts enter, or that have no register left), callers set depth, and the callee's
// number is depth + 1.
//
// A frame of wazero's stack iterator is an activation with a number if Module.Function
// knows it and its Kind is Polled, or Module.Stub knows it. Bare functions are on no
// stack that the host sees; all other frames were added, or are host functions' or other
// modules'. Where wazero makes a tail call a plain one, because not all of the parameters
// and results are passed in registers, it gets a number as that.
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
// Code grows: a Go program of 3 MB by 2 % with polls alone, by 5 % with Marks and Calls,
// by 18 % with TailCalls as well, QuickJS by 53 %; with Exact the two by 29 and 68 %; code
// that is all calls up to 20 times. Bare functions stay as they are. What it costs in
// time, against the guest as it was, scripts/wasmbench measures.
//
// # What is refused
//
// Exception handling, typed function references, GC types, several memories, 64-bit
// memories, relaxed SIMD and tags; types of more than 1,000 parameters or results, and
// functions of more than 50,000 locals; a table of more than 10,000,000 elements; modules
// of 2 GiB, and those whose code would grow to 64 times their length; modules that import
// from HostModule or export the globals above; and whatever is malformed, or names
// something that the module has not but that the rewriting would add. Types are not
// checked: wazero does that.
//
// # Calls back
//
// A call back of an entry by a host function runs on a stack of its own in wazero: at a
// sample in it the host sees only the inner segment, and can only know the outer one if
// it has seen it before, in the sample called with BeforeImport: announce is for that.
// It costs a walk for each call of an import, so the host clears the bits of imports
// that it has seen not to call back. Numbers go on across the segments: at the inner
// entry depth says how many activations stand below.
package rewrite
