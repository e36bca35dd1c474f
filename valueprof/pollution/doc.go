// Package pollution tells which call sites have several receivers, whether every caller of
// the site sees all of them, and which caller sees only one.
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
//     of the calls may well have half of the time. For a VM that keeps a profile itself
//     ([ccmap.OriginVM]), its counts stand in their place, see below.
//  3. Evidence has a [Mix] of targets, its [Mix.Entropy], and a [Verdict].
//  4. [Evidence.Splits] divides it by one, two, three or more callers above the site
//     (the paper's CallSiteRef). Each split has the entropy that remains.
//  5. [Analysis.Polluted] returns the sites with several receivers, each with the contexts
//     that have one: what a compiler should be told. [Clean] says which receiver it is, in
//     how many calls and samples, and whether that is proven, estimated or sampled.
//
// # A VM's own counts
//
// HotSpot counts the receivers of each call, but of a method as a whole, whoever called it.
// So [Site.Calls] has all receivers, also those that are too short to be sampled, and none
// of their contexts. [Site.VM] says what else is known: whether the counts are frozen, which
// is when they tell what came and hardly how often it comes now, and what the compiler makes
// of the call. [Analysis.Table] joins these counts with the counts at the callers and with
// the samples of each context.
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
