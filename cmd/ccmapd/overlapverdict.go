package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// verdict prints what a comparison comes to, and what makes the difference if
// there is one.
func (p *printer) verdict(r compare.Result) {
	p.line("noise        is that of %s and %s, which say as much as %s and %s independent ones",
		formatCount(r.A.Samples), plural(r.B.Samples, "sample"), formatCount(r.A.Independent), formatCount(r.B.Independent))
	c := r.Contexts
	switch r.Verdict {
	case compare.Same:
		p.line("verdict      %v: contexts are %.1f points beyond it, %v are tolerated", r.Verdict, c.Unexplained, r.Tolerance)
	case compare.TooFew:
		p.line("verdict      %v", r.Verdict)
	case compare.Differs:
		p.line("verdict      %v: contexts are %.1f points beyond noise, %v are tolerated", r.Verdict, c.Unexplained, r.Tolerance)
		p.families(r)
	}
}

// families prints the contexts that make most of a difference.
func (p *printer) families(r compare.Result) {
	t := newPathTable("context", column{title: "points", right: true})
	points := 0.0
	for _, f := range r.Families {
		points += f.Points
		t.addPath(f.Path, fmt.Sprintf("%.2f", f.Points), formatPercent(f.ShareA), formatPercent(f.ShareB),
			formatCount(f.SamplesA), formatCount(f.SamplesB))
	}
	p.table(fmt.Sprintf("%s account for %.1f of the %.1f points that the contexts differ by:",
		these(len(r.Families)), points, 100-r.Contexts.Percent), t)
}

// these prints "this context", "these ten contexts".
func these(n int) string {
	words := []string{"", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	if n == 1 {
		return "this context and its sub-paths"
	}
	return fmt.Sprintf("these %s contexts, with their sub-paths,", words[n])
}
