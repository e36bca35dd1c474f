// Package unwind finds the Java frames of a moment of a HotSpot JVM's thread: registers
// and a copied piece of stack in, methods with their bytecode indices out. All else is
// read from the JVM's memory, where its own tables say (package vmstructs). Names are not
// its business.
//
// [Unwinder.Unwind] goes through these steps:
//
//  1. The code cache is asked for the blob of the program counter: a compiled method, the
//     interpreter, a stub or an adapter. The heaps' segment maps lead to its beginning.
//  2. A compiled method says how long its frame is, and its scopes tell the methods that
//     were inlined at a call. The innermost frame may be incomplete: it is repaired until
//     the word that should be the return address is one.
//  3. A frame of the interpreter is found by its frame pointer.
//  4. Where the thread runs native code, the walk begins at the anchor that it has set
//     when it left Java; without one, at the first frame of Java that the frame pointers
//     lead to, or that lies on the stack and leads to a root.
//  5. The walk ends at the stub by which the JVM calls Java. If that call was made by
//     Java's native code, the stub's wrapper has the anchor to go on from.
//
// A word is believed to be a return address only if its code says so: compiled code has
// a descriptor for each, by the exact offset.
//
// Everything is foreign memory, which may be torn or lie. Each moment has a budget of
// reads and steps, and what is kept between moments is bounded. Facts are of JDK 17 and 25
// (frame_x86.hpp, codeBlob.hpp, nmethod.hpp, pcDesc.hpp, debugInfo.cpp, scopeDesc.cpp,
// heap.cpp, javaCalls.hpp, continuationEntry.hpp); offsets that the tables do not have are
// checked while it runs, see calibration.
package unwind
