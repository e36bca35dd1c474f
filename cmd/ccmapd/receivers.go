package main

import (
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Hints about a call site, as its JSON has them.
const (
	hintMonomorphic = "monomorphic"
	hintBimorphic   = "bimorphic"
	hintMegamorphic = "megamorphic"
	hintMixed       = "mixed"
	hintLineUnknown = "line unknown"
	hintFewSamples  = "few samples"
)

// fewSamples is where a receiver mix begins to say something: with 30 samples, a
// receiver of 10 % of the calls is missed in 0.9³⁰ = 4 % of the sites.
const fewSamples = 30

// hint says what the callees of a site mean to who would optimize the call.
func (r siteRow) hint(p *profile) string {
	switch {
	case p.countsSamples() && r.total.Samples < fewSamples:
		return hintFewSamples
	case len(r.targets) == 1:
		return hintMonomorphic
	case r.offset == ccmap.NoOffset:
		return hintLineUnknown
	case !oneMethodName(r.targets):
		return hintMixed
	case len(r.targets) == 2:
		return hintBimorphic
	}
	return hintMegamorphic
}

// targets returns the callees that are written at the call site, rather than put
// there by the compiler or the kernel; all callees where there are no others.
func targets(callees []calleeRow) []calleeRow {
	var written []calleeRow
	for _, c := range callees {
		if !isInserted(c.method.Name) {
			written = append(written, c)
		}
	}
	if len(written) == 0 {
		return callees
	}
	return written
}

// isInserted reports whether a callee stands in no source line: a pseudo method
// such as "[kernel]", or a function of Go's runtime, which the compiler calls to
// allocate, to grow the stack or to copy.
func isInserted(name string) bool {
	return strings.HasPrefix(name, "[") || strings.HasPrefix(name, "runtime.")
}

// oneMethodName reports whether the targets differ in their receivers at most,
// as those of a call through an interface do.
func oneMethodName(targets []calleeRow) bool {
	return !slices.ContainsFunc(targets, func(c calleeRow) bool {
		return methodBaseName(c.method.Name) != methodBaseName(targets[0].method.Name)
	})
}

// methodBaseName returns the name of a method without package, receiver and
// type arguments.
func methodBaseName(name string) string { return lastComponent(plainName(name)) }
