package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// verdict prints what a comparison comes to, and what makes the difference if
// there is one.
func (p *printer) verdict(r compare.Result) {
	p.line("noise        is that of %s", noiseOf(r.A, r.B))
	beyond := r.Decisive().Unexplained
	switch r.Verdict {
	case compare.Same:
		p.line("verdict      %v: %s are %.1f points beyond it, %v are tolerated", r.Verdict, r.VerdictBy, beyond, r.Tolerance)
	case compare.TooFew:
		p.line("verdict      %v", r.Verdict)
	case compare.Differs:
		p.line("verdict      %v: %s are %.1f points beyond noise, %v are tolerated", r.Verdict, r.VerdictBy, beyond, r.Tolerance)
		p.families(r)
	}
}

// noiseOf says how many samples are behind two profiles, and as how many that all
// tell something of their own they count, unless as many.
func noiseOf(a, b compare.Profile) string {
	samples := formatCount(a.Samples) + " and " + plural(b.Samples, "sample")
	if a.Samples == a.Independent && b.Samples == b.Independent {
		return samples
	}
	return fmt.Sprintf("%s (%s and %s independent)", samples, formatCount(a.Independent), formatCount(b.Independent))
}

// families prints the contexts that make most of a difference, or, where those were
// pruned, what to do instead.
func (p *printer) families(r compare.Result) {
	if len(r.Families) == 0 {
		p.line("\n'ccmapd diff' lists the methods and edges that changed.")
		return
	}
	t := newPathTable("context", column{title: "points", right: true})
	points := 0.0
	for _, f := range r.Families {
		points += f.Points
		t.addPath(f.Path, fmt.Sprintf("%.2f", f.Points), formatPercent(f.ShareA), formatPercent(f.ShareB),
			formatCount(f.SamplesA), formatCount(f.SamplesB))
	}
	p.table(fmt.Sprintf("%s account for %.1f of the %.1f points:",
		these(len(r.Families)), points, 100-r.Contexts.Percent), t)
}

// these prints "this context", "these ten contexts".
func these(n int) string {
	words := []string{"", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	if n == 1 {
		return "this context and its sub-paths"
	}
	return fmt.Sprintf("these %s contexts and their sub-paths", words[n])
}
