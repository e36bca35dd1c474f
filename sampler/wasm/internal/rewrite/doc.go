// Package rewrite adds safe points to WebAssembly modules, so that their instances can be
// sampled from inside.
//
// Rotor's JIT compiler did the same for the paper (section 4.2). Here it is done to the
// bytecode, before wazero compiles it:
//
//  1. The module is parsed. Malformed or unknown parts are refused with their
//     offset and the reason.
//  2. All code is scanned once, to give every function a Kind.
//  3. The code is copied, with polls at entries, in loops and after calls of imports.
//     With Options.Marks every activation gets a number. Go's jumps become shorter
//     (loopscan.go).
//  4. Function indices are shifted everywhere: the added imports come after the
//     module's own.
//  5. Names and lines are moved to the new code, so that wazero's stack traces read
//     as before.
//
// The package is pure: bytes in, bytes out. Any goroutine may read a Module.
//
// # Interface to the host
//
// The rewritten module imports functions from HostModule:
//
//	sample(reason, number i32)         at a safe point while Mark is set
//	call(site, element, number i32)    before an indirect call while Calls is set
//	point(site, value i32)             with Options.Points, at a Point while Points is set
//
// and exports mutable globals, under names that no guest uses. The guest's native code
// loads and stores them plainly:
//
//	ccmapd.mark      i32  1 at first. Guest: reads it at safe points. Host: sets it to 1
//	                      to request a sample, and to 0 when it has taken the sample.
//	ccmapd.limit     i32  only with Options.Marks, AllNumbers at first. Guest: compares it
//	                      with every new activation's number. Host: sets it to AllNumbers
//	                      after Mark = 1, and to the value of Visited after Mark = 0.
//	ccmapd.visited   i32  only with Options.Marks, 0 at first. No sample of the host has
//	                      seen an activation on the stack with a higher number. Host: sets
//	                      it at a sample. Guest: lowers it when it gives a number again.
//	ccmapd.depth     i32  only with Options.Marks, 0 at first. The number of the calling
//	                      activation. Guest: sets it before calls that give the callee its
//	                      number in no other way; at other times it may have any value.
//	                      Host: sets it to 0 at an entry from outside, and at the end of a
//	                      call back to its value at the beginning.
//	ccmapd.calls     i32  only with Options.Calls, 0 at first. Guest: reads it at every
//	                      indirect call. Host: sets it to 1 while it wants calls.
//	ccmapd.announce  i64  all ones at first. Guest: tests a bit of it before every call of an
//	                      import that Options.Announce chose. Host: clears and sets bits.
//	ccmapd.points    i32  only with Options.Points, 0 at first. Guest: reads it at every
//	                      Point. Host: sets it to 1 while it wants points.
//	ccmapd.executed  i64  only with Options.Exact, 0 at first. Guest: the number of executed
//	                      instructions of the original. A run of instructions without a
//	                      branch, a label or a call is added when it begins.
//
// Safe points are polls:
//
//	if mark != 0 { sample(reason, number) }
//
// There are polls
//
//   - at the entry of every function that is not Bare (ReasonEntry);
//   - before the branches back to a loop's head that may close a cycle without
//     another safe point (ReasonLoop). Innermost loops that are short and call nothing
//     poll once in 256 iterations;
//   - with Options.TailCalls before a function's exits (ReasonLoop), except before
//     branches to its outermost label, if it loops or is not short; without it only if
//     it calls nothing and its loops are of the kind that seldom polls;
//   - after every call of an import, except tail calls (AfterImport(k)). That poll finds
//     the time of the host function.
//
// Options.Quiet takes polls at entries and exits away, where an earlier run has found nothing. Every cycle
// of calls keeps one. Options.Known leaves indirect calls without a report.
//
// Before a call of import k that Options.Announce chose is
//
//	if announce & Announced[k] != 0 { sample(BeforeImport(k), number) }
//
// # Activations
//
// This section needs Options.Marks. Without it there are polls and nothing else: every
// number is 0, every frame that Module.Function knows is the guest's, and it is unknown
// whether a sample has seen it.
//
// Every activation of a Polled function has a number: 1 more than its caller's, or its
// caller's own number after a tail call. The entry's poll is
//
//	if limit >= number {
//		if visited >= number { visited = number - 1 }
//		limit = visited
//		if mark != 0 { limit = AllNumbers; sample(ReasonEntry, number) }
//	}
//
// So one comparison asks whether a sample is due, and whether a sample has seen an
// earlier activation with that number, which has ended in whatever way. At a sample the
// stack has number activations. The first min(visited, number) are the same as at the
// sample before. The host sets visited to number. The end of an activation needs no work.
//
// With Options.TailCalls a stub does the work in the if. It replaces the function's frame
// and then enters the function again, with a number whose highest bit is set, so that it
// does not poll again. Callees get the number without the bit. The host may find the bit
// in the number of a sample.
//
// The number is a function's last parameter, one more than it had, and usually stays in a
// register. If the type must not change (functions in tables, functions that hosts call,
// and functions without a free register), callers set depth, and the callee's number is
// depth + 1.
//
// A frame of wazero's stack iterator is an activation with a number if Module.Function
// knows it and its Kind is Polled or Silent, or if Module.Stub knows it. The host sees no Bare
// function on a stack. All other frames were added, or belong to host functions or other
// modules. If wazero makes a plain call of a tail call, because registers cannot pass all
// parameters and results, it gets a number like a plain call.
//
// # Entries
//
// A host listens on the functions of Module.Entries: the exported functions and the start
// function. So it knows when the guest is entered and left, and with which trap. A
// function is exported through a thunk, a function of the same name that calls it, if the
// module also calls or refers to it itself, or if it makes tail calls: wazero reports no
// return of those to a listener. So only calls from outside pass the thunk. If a trap
// unwinds through a thunk, wazero's trace has one line more than without the rewriting:
// it shows the entry function twice. The host does not see entries of functions that
// another module gets through a table.
//
// # Cost
//
// Code grows: a Go program of 3 MB by 2 % with polls alone, by 5 % with Marks and Calls,
// by 18 % with TailCalls as well, QuickJS by 53 %; with Exact the two by 29 and 68 %;
// code that is all calls up to 20 times. Bare functions do not change. Package wasmbench
// measures the cost in time, against the original guest.
//
// # Refused modules
//
// Exception handling, typed function references, GC types, several memories, 64-bit
// memories, relaxed SIMD and tags; types of more than 1,000 parameters or results, and
// functions of more than 50,000 locals; a table of more than 10,000,000 elements; modules
// of 2 GiB, and modules whose code would grow to 64 times their length; modules that
// import from HostModule or export the globals above; malformed modules; and modules with
// an index that would become valid only by the rewriting. wazero checks types, this
// package does not.
//
// # Calls back
//
// When a host function calls back, wazero runs the entry on a new stack. At a sample the
// host sees only this inner segment. It knows the outer segment only from an earlier
// sample, BeforeImport, which announce requests. That costs a walk for each call of an
// import, so the host clears the bits of imports that do not call back. Numbers go on
// across the segments: at the inner entry depth is the number of activations below.
package rewrite
