package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

func printDiff(env *environment, profiles []*profile, d compare.Diff, o diffOptions) error {
	if o.json {
		return writeJSON(env.stdout, diffJSON(profiles, d, o))
	}
	p := newPrinter(env)
	p.legend(profiles, []string{"A", "B"})
	for _, l := range []struct {
		wanted bool
		noun   string
		compare.Changes
	}{
		{o.wants(o.methods), "method", d.Methods},
		{o.wants(o.edges), "edge", d.Edges},
		{o.wants(o.contexts), "context", d.Contexts},
	} {
		if l.wanted {
			p.changes(l.noun, l.Changes)
		}
	}
	if o.unasked {
		p.line("\ncontexts: not compared, as some were pruned; --contexts lists them nevertheless")
	}
	p.notes(append(caveats(profiles, o.by.value), cutNote(profiles[0], profiles[1], d.CutAt)...))
	return p.err
}

// changes prints a list of changes of one kind, and how far to trust it.
func (p *printer) changes(noun string, c compare.Changes) {
	p.line("\n%ss: %s", noun, significance(c))
	if len(c.List) == 0 {
		return
	}
	t := newPathTable(noun, column{title: "change", right: true}, column{title: "p", right: true, drop: 1})
	for _, x := range c.List {
		t.addPath(x.Path, fmt.Sprintf("%+.1f", x.Points), share(x.ShareA, x.SamplesA, "new"), share(x.ShareB, x.SamplesB, "gone"),
			formatCount(x.SamplesA), formatCount(x.SamplesB), formatP(x.P))
	}
	p.table("", t)
	if c.More > 0 {
		p.line("%s and %s more: -n 0 lists all", ellipsis, formatCount(int64(c.More)))
	}
}

// mostDetectable is the largest change, in points, that a share of 10 % can make.
const mostDetectable = 90

// significance says how many changes are significant or, if none is, how large
// one would have been.
func significance(c compare.Changes) string {
	tested := formatCount(int64(c.Tested))
	switch {
	case c.Tested == 0:
		return "too few samples to test any"
	case c.Significant == 0 && c.Detectable > mostDetectable:
		return fmt.Sprintf("no significant change of %s tested; with so few samples hardly one could show", tested)
	case c.Significant == 0:
		return fmt.Sprintf("no significant change of %s tested; one of %.1f points in a share of 10%% would have shown", tested, c.Detectable)
	case c.Significant == 1:
		return fmt.Sprintf("1 significant change of %s tested", tested)
	}
	return fmt.Sprintf("%s significant changes of %s tested", formatCount(int64(c.Significant)), tested)
}

// share prints a share, and a word in the place of what was not sampled.
func share(percent float64, samples int64, none string) string {
	if samples == 0 {
		return none
	}
	return formatPercent(percent)
}

// formatP prints a probability, to two digits where it is large enough to matter.
func formatP(p float64) string {
	if p < 1e-4 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}

// diffFileJSON is a compare.Diff that names its files, and has the lists that were
// asked for.
type diffFileJSON struct {
	A sideJSON `json:"a"`
	B sideJSON `json:"b"`
	compare.Diff
	Methods  *compare.Changes `json:"methods,omitempty"`
	Edges    *compare.Changes `json:"edges,omitempty"`
	Contexts *compare.Changes `json:"contexts,omitempty"`
	Notes    []string         `json:"notes"`
}

func diffJSON(profiles []*profile, d compare.Diff, o diffOptions) any {
	out := diffFileJSON{
		A:     sideJSON{profiles[0].path, d.A},
		B:     sideJSON{profiles[1].path, d.B},
		Diff:  d,
		Notes: append(caveats(profiles, o.by.value), cutNote(profiles[0], profiles[1], d.CutAt)...),
	}
	if o.wants(o.methods) {
		out.Methods = &d.Methods
	}
	if o.wants(o.edges) {
		out.Edges = &d.Edges
	}
	if o.wants(o.contexts) {
		out.Contexts = &d.Contexts
	}
	return out
}
