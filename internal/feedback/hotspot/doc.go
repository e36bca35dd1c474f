// Package hotspot tells HotSpot's compiler C2 what a profile knows, and finds out whether C2
// has listened.
//
//	profile ─▶ Hints ─▶ WriteDirectives, WriteCommands ─▶ the JVM's next start
//	              └──▶ Trial ─▶ a running JVM ─▶ its events ─▶ Results
//
// A [Hint] is for the compilations of one method, its root: to inline a callee there whatever
// the compiler's own rules say, or to keep a callee out. That is all that a JVM as it comes
// takes. Nobody can hand it types of receivers, so a call of many types becomes one of few by
// inlining: types flow from the caller into the code.
//
// A [Trial] does this with a running JVM (JDK 17 to 25):
//
//  1. [Begin] starts a recording of the compiler's events, a lease that ends by itself.
//  2. [Trial.Apply] adds compiler directives, unless others have added theirs. A directive
//     holds for later compilations alone. A root that the JVM has thrown away [MostDecompiles]
//     times has none.
//  3. Each compilation of a root says, call by call, what was inlined and why: [Trial.Results]
//     has it for every hint. A hint that was not taken is no feedback.
//  4. [Trial.End] removes the directives. A root that gets to [MostDecompiles] loses its hints
//     before that.
//
// Compiled code stays as it is after the end, until the JVM compiles the method again.
//
// A kept profile as a whole has less use at a JVM's next start: [Early] are methods to be compiled
// early, and [Train] says whether a training run, whose profile JDK 25 keeps, is like production.
//
// What a JVM answers is not believed: its list of directives says what is in force, and only
// events say what was done.
//
// A Trial belongs to one goroutine, except Results and Settled, which any goroutine may call.
package hotspot
