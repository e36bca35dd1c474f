// Package hotspot is the runtime of a HotSpot JVM, as package process has the word: it makes
// stacks of moments of threads, and names their frames. Nothing is loaded into the JVM, no
// signal is sent and nothing is written: all is read from its memory and files.
//
// [Open] reads the JVM's own tables (package vmstructs), and symbols and call frame information of
// libjvm.so; those of other libraries are read once a sample asks for them. Then a
// moment becomes a stack in these steps:
//
//  1. Code of libraries is left by their call frame information: C functions, the JVM's own
//     among them, up to Java code or to the thread's beginning.
//  2. Java code, compiled, inlined or interpreted, is left by the JVM's tables of it (package
//     unwind), through the copied piece of stack, up to the thread's first Java method.
//     A stack that is deeper than its copy is read to its end, a little later.
//  3. Where call frame information does not lead to Java code, the JVM's own note of the thread
//     does: it says where the thread's last Java frame is. It is read after the moment, so it
//     is believed only if the copied piece of stack has a return address there. Such a stack
//     has a frame [native] in the place of the functions that are not known.
//  4. A thread of the JVM's own without Java code has its purpose for a root: [gc], [jit], [vm].
//  5. Methods get their names, lines and loaders from package classes.
//
// C functions between two Java methods, as a call by reflection has them on JDK 17, are left
// out: the map shows which method has called which.
//
// # Limits
//
// The innermost frame's position is that of the next safepoint: compiled code has scopes at
// safepoints only, unless the JVM runs with -XX:+DebugNonSafepoints. So an inlined method may be
// missing on top, or another one of the same compiled method stand there. Callers are exact.
//
// A [Process] belongs to the engine's goroutine.
package hotspot
