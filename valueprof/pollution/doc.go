// Package pollution tells which call sites have several receivers, and whether
// that is so from every caller.
//
// A profile of a call site that many callers share is polluted: where each of them
// has one receiver type, the site has many (HotSpot's wiki, "MethodData", section
// "Profile pollution"). It can be cleaned by splitting it by context, which is what
// an optimizer does that inlines or clones the method into its callers:
//
//  1. [New] reads a snapshot, and [Analysis.Sites] lists its call sites.
//  2. What is known of a [Site] is [Evidence] of two kinds, which are never added
//     up: CPU samples, from the Call Context Map, are of time; calls that
//     breakpoints caught, from the profile points of [ccmap.OriginBurst], are of
//     counts. A receiver with a tenth of the calls may well have half of the time.
//  3. Evidence has a [Mix] of targets, its [Mix.Entropy], and a [Verdict].
//  4. [Evidence.Splits] divides it by the callers above the site, one, two, three of
//     them and more (the paper's CallSiteRef), each with the entropy that remains.
//
// # Few observations
//
// Whatever is divided often enough looks pure: a context with one sample has one
// receiver. So nothing is said of contexts that were seen less than [MinSamples] or
// [MinCalls] times: they stay together, as what is left of the context they are in.
// And a context is not said to have fewer receivers than its site where that many
// observations of the site's mix would look the same by chance, in one case of
// twenty. So the entropy of a split is that of the contexts that can be told apart,
// and it never grows with depth.
//
// # Names of types
//
// A target is a method, and its receiver is the type. On a sampled stack it is the
// method that was written: of a promoted method, that of the embedded type, as the
// runtime leaves wrappers out of stacks. A caught call has the target of the call
// instruction, which is the wrapper: the dynamic type, with two limits. Where an
// interface holds a value rather than a pointer, the wrapper is that of the pointer
// (Go 1.26: the interface's data word is one). And generic code is compiled once for
// a shape: a stack has Stack[go.shape.int], of all types that are an int
// underneath; a caught call, Stack[main.ID].
package pollution
