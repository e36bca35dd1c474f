// Package pollution tells which call sites have several receivers, and whether
// every caller of the site sees all of them.
//
// A profile of a call site that many callers share is polluted: each caller may have
// one receiver type, but the site has many (HotSpot's wiki, "MethodData", section
// "Profile pollution"). An optimizer cleans the profile if it splits the site by
// context, when it inlines or clones the method into its callers:
//
//  1. [New] reads a snapshot, and [Analysis.Sites] lists its call sites.
//  2. A [Site] has [Evidence] of two kinds, which are never added up. CPU samples,
//     from the Call Context Map, measure time. Calls that breakpoints caught, from the
//     profile points of [ccmap.OriginBurst], measure counts. A receiver with a tenth
//     of the calls may well have half of the time.
//  3. Evidence has a [Mix] of targets, its [Mix.Entropy], and a [Verdict].
//  4. [Evidence.Splits] divides it by one, two, three or more callers above the site
//     (the paper's CallSiteRef). Each split has the entropy that remains.
//
// # Few observations
//
// Small contexts look pure by chance: a context with one sample has one receiver. So
// contexts with less than [MinSamples] or [MinCalls] observations have no verdict of
// their own. They stay together as the rest of the context around them. A larger
// context may have fewer receivers than its site. This counts only if the same number
// of observations of the site's mix would rarely look the same, in one case of twenty.
// So the entropy of a split measures only contexts that can be told apart, and it never
// grows with depth.
//
// # Names of types
//
// A target is a method, and its receiver is the type. A sampled stack shows the method
// as it was written, because the runtime omits wrappers from stacks. For a promoted
// method this is the method of the embedded type. A caught call has the target of the
// call instruction. This is the wrapper, which names the dynamic type, with two limits.
// If an interface holds a value and not a pointer, the wrapper names the pointer type
// (Go 1.26: the interface's data word is a pointer). And the compiler compiles generic
// code once for a shape. A stack shows Stack[go.shape.int] for all types with int as
// the underlying type. A caught call shows Stack[main.ID].
package pollution
