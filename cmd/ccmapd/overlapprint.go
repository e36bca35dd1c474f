package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

func printOverlap(env *environment, profiles []*profile, pairs []pair, o overlapOptions) error {
	switch {
	case o.json:
		return writeJSON(env.stdout, overlapJSON(profiles, pairs, o))
	case len(pairs) == 1:
		return printPair(env, profiles, pairs[0], o)
	}
	return printMatrices(env, profiles, pairs, o)
}

// printPair prints all that is known of two profiles.
func printPair(env *environment, profiles []*profile, r pair, o overlapOptions) error {
	t := &table{columns: []column{
		{title: "by " + o.by.value}, {title: "overlap", right: true}, {title: "expected", right: true},
		{title: "floor A", right: true}, {title: "floor B", right: true}, {title: "counters", right: true},
	}}
	for _, row := range []struct {
		name string
		compare.Overlap
	}{{"methods", r.Methods}, {"edges", r.Edges}, {"contexts", r.Contexts}} {
		t.add(row.name, formatPercent(row.Percent), expected(row.Overlap), formatPercent(row.FloorA),
			formatPercent(row.FloorB), formatCount(int64(row.Counters)))
	}
	p := newPrinter(env)
	p.legend(profiles, []string{"A", "B"})
	p.table("", t)
	p.line("\ncorrelation  Pearson %.3f, Spearman %.3f", r.Pearson, r.Spearman)
	p.line("coverage     B has %s of A's %s, A has %s of B's %s",
		formatPercent(r.Coverage.AB), plural(int64(r.Coverage.HotA), "hot edge"),
		formatPercent(r.Coverage.BA), plural(int64(r.Coverage.HotB), "hot edge"))
	p.verdict(r.Result)
	p.notes(pairNotes(profiles, []pair{r}, o.by.value))
	return p.err
}

// expected prints what two profiles of one behaviour would overlap, and the interval
// that the verdict is by.
func expected(o compare.Overlap) string {
	return fmt.Sprintf("%s ±%.1f", formatPercent(o.Expected), o.Interval)
}

// cutNote says that stacks were cut, if they were.
func cutNote(a, b *profile, frames int) []string {
	if frames == 0 {
		return nil
	}
	return []string{fmt.Sprintf("one of %s and %s has no stacks of more than %d frames, at which runtime/pprof cuts them: of both, the innermost %d of each are compared.",
		a.path, b.path, frames, frames)}
}

// pairNotes says what a reader of overlaps may take for a difference.
func pairNotes(profiles []*profile, pairs []pair, by string) []string {
	all := notes(profiles, by)
	for _, r := range pairs {
		all = append(all, cutNote(profiles[r.a], profiles[r.b], r.CutAt)...)
	}
	return all
}

// printMatrices prints a table of all pairs for each figure.
func printMatrices(env *environment, profiles []*profile, pairs []pair, o overlapOptions) error {
	labels := make([]string, len(profiles))
	for i := range labels {
		labels[i] = strconv.Itoa(i + 1)
	}
	p := newPrinter(env)
	p.legend(profiles, labels)
	withNoise := func(o compare.Overlap) string {
		return fmt.Sprintf("%s (%s)", formatPercent(o.Percent), formatPercent(o.Expected))
	}
	for _, m := range []struct {
		title string
		cell  func(pair) string
	}{
		{"methods, by " + o.by.value + ": overlap (expected of one behaviour)", func(r pair) string { return withNoise(r.Methods) }},
		{"edges", func(r pair) string { return withNoise(r.Edges) }},
		{"contexts", func(r pair) string { return withNoise(r.Contexts) }},
		{"verdict", func(r pair) string { return r.Verdict.String() }},
		{"correlation: Pearson, Spearman", func(r pair) string { return fmt.Sprintf("%.3f, %.3f", r.Pearson, r.Spearman) }},
		{"coverage: hot edges of the row that the column has, and the reverse", func(r pair) string {
			return formatPercent(r.Coverage.AB) + ", " + formatPercent(r.Coverage.BA)
		}},
	} {
		p.table(m.title, matrix(labels, pairs, m.cell))
	}
	p.notes(pairNotes(profiles, pairs, o.by.value))
	return p.err
}

// matrix has a row for every profile but the last and a column for every one but
// the first; what would stand below its diagonal stands above it.
func matrix(labels []string, pairs []pair, cell func(pair) string) *table {
	t := &table{columns: []column{{title: "", right: true}}}
	for _, label := range labels[1:] {
		t.columns = append(t.columns, column{title: label, right: true})
	}
	for _, label := range labels[:len(labels)-1] {
		t.rows = append(t.rows, append([]string{label}, make([]string, len(labels)-1)...))
	}
	for _, r := range pairs {
		t.rows[r.a][r.b] = cell(r)
	}
	return t
}

func (p *printer) legend(profiles []*profile, labels []string) {
	for i, profile := range profiles {
		p.line("%s  %s: %s", labels[i], printable(profile.path), profile.extent())
	}
}

func (p *printer) notes(notes []string) {
	if len(notes) > 0 {
		p.line("")
	}
	for _, note := range notes {
		p.line("note: %s", note)
	}
}

// enoughSamples is where an overlap of contexts begins to say something: with
// 1,500 samples, two runs of one program overlapped by 84 to 93 % inclusively.
const enoughSamples = 1000

// notes says what a reader of an overlap may take for a difference and is none.
func notes(profiles []*profile, by string) []string {
	few := []string{} // not nil, for JSON
	for _, p := range distinct(profiles) {
		if samples := p.Total().Samples; p.countsSamples() && samples < enoughSamples {
			few = append(few, fmt.Sprintf("%s has only %s: under %s, most differences are noise.",
				p.path, plural(samples, "sample"), formatCount(enoughSamples)))
		}
	}
	return append(few, caveats(profiles, by)...)
}

// caveats says what is not in the profiles that are compared.
func caveats(profiles []*profile, by string) []string {
	notes := []string{} // not nil, for JSON
	if len(distinct(profiles)) == 1 {
		notes = append(notes, profiles[0].path+" is compared with itself.")
	}
	for _, p := range distinct(profiles) {
		if !p.countsSamples() {
			notes = append(notes, p.path+" does not say how many samples it has: what is noise is not known.")
		}
		for _, warning := range p.warnings() {
			notes = append(notes, p.path+": "+warning+".")
		}
		if caveat := p.prunedCaveat(); caveat != "" {
			notes = append(notes, caveat)
		}
		if by == compare.ByActivations.String() && !p.ActivationsExact() {
			notes = append(notes, p.path+" has lower bounds of activations, not their numbers.")
		}
	}
	if by == compare.BySamples.String() && intervalsDiffer(profiles) {
		notes = append(notes, "the sampling intervals differ: only --by time compares such profiles.")
	}
	return notes
}

// distinct leaves out profiles that are compared with themselves.
func distinct(profiles []*profile) []*profile {
	var out []*profile
	for _, p := range profiles {
		if !slices.ContainsFunc(out, func(q *profile) bool { return q.path == p.path }) {
			out = append(out, p)
		}
	}
	return out
}

// intervalsDiffer reports whether the profiles used more than one interval, as
// far as they say.
func intervalsDiffer(profiles []*profile) bool {
	seen := ""
	for _, p := range profiles {
		for _, change := range p.Meta().Interval {
			interval := change.Interval.String()
			if seen != "" && seen != interval {
				return true
			}
			seen = interval
		}
	}
	return false
}

// pairJSON is a compare.Result that names its files.
type pairJSON struct {
	A sideJSON `json:"a"`
	B sideJSON `json:"b"`
	compare.Result
}

type sideJSON struct {
	File string `json:"file"`
	compare.Profile
}

func overlapJSON(profiles []*profile, pairs []pair, o overlapOptions) any {
	out := struct {
		Weight string     `json:"weight"`
		Pairs  []pairJSON `json:"pairs"`
		Notes  []string   `json:"notes"`
	}{o.by.value, make([]pairJSON, len(pairs)), pairNotes(profiles, pairs, o.by.value)}
	for i, r := range pairs {
		out.Pairs[i] = pairJSON{
			A:      sideJSON{profiles[r.a].path, r.A},
			B:      sideJSON{profiles[r.b].path, r.B},
			Result: r.Result,
		}
	}
	return out
}
