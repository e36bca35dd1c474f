package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Overlap says how far profiles agree, each with each.
type Overlap struct {
	Pairs    []Pair // every profile with all after it
	profiles []*Profile
	by       compare.Weight
}

// Pair is the comparison of two profiles.
type Pair struct {
	A, B *Profile
	compare.Result
	a, b int // their numbers
}

// NewOverlap compares every profile with all after it. Its errors name the two files.
func NewOverlap(profiles []*Profile, o compare.Options) (*Overlap, error) {
	v := &Overlap{profiles: profiles, by: o.Weight}
	for a := range profiles {
		for b := a + 1; b < len(profiles); b++ {
			r, err := compare.Compare(profiles[a].Snapshot, profiles[b].Snapshot, o)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", profiles[a].Path, profiles[b].Path, err)
			}
			v.Pairs = append(v.Pairs, Pair{profiles[a], profiles[b], r, a, b})
		}
	}
	return v, nil
}

// Least returns the pair whose contexts agree least.
func (v *Overlap) Least() Pair {
	return slices.MinFunc(v.Pairs, func(a, b Pair) int { return cmp.Compare(a.Contexts.Percent, b.Contexts.Percent) })
}

// First returns the first pair with a verdict.
func (v *Overlap) First(verdict compare.Verdict) (Pair, bool) {
	i := slices.IndexFunc(v.Pairs, func(p Pair) bool { return p.Verdict == verdict })
	if i < 0 {
		return Pair{}, false
	}
	return v.Pairs[i], true
}

// Text prints all about two profiles, or for several a matrix of each figure.
func (v *Overlap) Text(w io.Writer, wide bool) error {
	out := terminal.NewPrinter(w, wide)
	if len(v.Pairs) == 1 {
		v.printPair(out, v.Pairs[0])
	} else {
		v.printMatrices(out)
	}
	printNotes(out, v.notes())
	return out.Err()
}

func (v *Overlap) printPair(out *terminal.Printer, r Pair) {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "by " + v.by.String()}, {Title: "overlap", Right: true}, {Title: "expected", Right: true},
		{Title: "floor A", Right: true}, {Title: "floor B", Right: true}, {Title: "counters", Right: true},
	}}
	for _, row := range []struct {
		name string
		compare.Overlap
	}{{"methods", r.Methods}, {"edges", r.Edges}, {"contexts", r.Contexts}} {
		t.Add(row.name, figure.Percent(row.Percent), expected(row.Overlap), figure.Percent(row.FloorA),
			figure.Percent(row.FloorB), figure.Count(int64(row.Counters)))
	}
	printLegend(out, v.profiles, []string{"A", "B"})
	out.Table("", t)
	out.Line("\ncorrelation  Pearson %.3f, Spearman %.3f", r.Pearson, r.Spearman)
	out.Line("coverage     B has %s of A's %s, A has %s of B's %s",
		figure.Percent(r.Coverage.AB), figure.Plural(int64(r.Coverage.HotA), "hot edge"),
		figure.Percent(r.Coverage.BA), figure.Plural(int64(r.Coverage.HotB), "hot edge"))
	printVerdict(out, r.Result)
}

// expected prints how far two profiles of one behaviour would overlap, and the interval
// that the verdict goes by.
func expected(o compare.Overlap) string {
	return fmt.Sprintf("%s ±%.1f", figure.Percent(o.Expected), o.Interval)
}

// printMatrices prints a table of all pairs for each figure.
func (v *Overlap) printMatrices(out *terminal.Printer) {
	labels := make([]string, len(v.profiles))
	for i := range labels {
		labels[i] = strconv.Itoa(i + 1)
	}
	printLegend(out, v.profiles, labels)
	withNoise := func(o compare.Overlap) string {
		return fmt.Sprintf("%s (%s)", figure.Percent(o.Percent), figure.Percent(o.Expected))
	}
	for _, m := range []struct {
		title string
		cell  func(Pair) string
	}{
		{"methods, by " + v.by.String() + ": overlap (expected of one behaviour)", func(r Pair) string { return withNoise(r.Methods) }},
		{"edges", func(r Pair) string { return withNoise(r.Edges) }},
		{"contexts", func(r Pair) string { return withNoise(r.Contexts) }},
		{"verdict", func(r Pair) string { return r.Verdict.String() }},
		{"correlation: Pearson, Spearman", func(r Pair) string { return fmt.Sprintf("%.3f, %.3f", r.Pearson, r.Spearman) }},
		{"coverage: hot edges of the row that the column has, and the reverse", func(r Pair) string {
			return figure.Percent(r.Coverage.AB) + ", " + figure.Percent(r.Coverage.BA)
		}},
	} {
		out.Table(m.title, matrix(labels, v.Pairs, m.cell))
	}
}

// matrix has a row for every profile but the last and a column for every profile but the
// first. The part below its diagonal is empty: it would repeat the part above.
func matrix(labels []string, pairs []Pair, cell func(Pair) string) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "", Right: true}}}
	for _, label := range labels[1:] {
		t.Columns = append(t.Columns, terminal.Column{Title: label, Right: true})
	}
	for _, label := range labels[:len(labels)-1] {
		t.Rows = append(t.Rows, append([]string{label}, make([]string, len(labels)-1)...))
	}
	for _, r := range pairs {
		t.Rows[r.a][r.b] = cell(r)
	}
	return t
}

// printVerdict prints the verdict of a comparison, and the contexts that differ if they
// do.
func printVerdict(out *terminal.Printer, r compare.Result) {
	out.Line("noise        is that of %s", noiseOf(r.A, r.B))
	beyond := r.Decisive().Unexplained
	switch r.Verdict {
	case compare.Same:
		out.Line("verdict      %v: %s are %.1f points beyond it, %v are tolerated", r.Verdict, r.VerdictBy, beyond, r.Tolerance)
	case compare.TooFew:
		out.Line("verdict      %v", r.Verdict)
	case compare.Differs:
		out.Line("verdict      %v: %s are %.1f points beyond noise, %v are tolerated", r.Verdict, r.VerdictBy, beyond, r.Tolerance)
		printFamilies(out, r)
	}
}

// noiseOf prints the numbers of samples in two profiles and, if they differ, the numbers
// of independent samples.
func noiseOf(a, b compare.Profile) string {
	samples := figure.Count(a.Samples) + " and " + figure.Plural(b.Samples, "sample")
	if a.Samples == a.Independent && b.Samples == b.Independent {
		return samples
	}
	return fmt.Sprintf("%s (%s and %s independent)", samples, figure.Count(a.Independent), figure.Count(b.Independent))
}

// printFamilies prints the contexts that make most of a difference. If contexts were
// pruned, it names a command instead.
func printFamilies(out *terminal.Printer, r compare.Result) {
	if len(r.Families) == 0 {
		out.Line("\n'ccmapd diff' lists the methods and edges that changed.")
		return
	}
	t := newPathTable("context", terminal.Column{Title: "points", Right: true})
	points := 0.0
	for _, f := range r.Families {
		points += f.Points
		addPath(t, f.Path, fmt.Sprintf("%.2f", f.Points), figure.Percent(f.ShareA), figure.Percent(f.ShareB),
			figure.Count(f.SamplesA), figure.Count(f.SamplesB))
	}
	out.Table(fmt.Sprintf("%s account for %.1f of the %.1f points:",
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

// JSON lists the pairs.
func (v *Overlap) JSON() any {
	out := struct {
		Weight string     `json:"weight"`
		Pairs  []pairJSON `json:"pairs"`
		Notes  []string   `json:"notes"`
	}{v.by.String(), make([]pairJSON, len(v.Pairs)), v.notes()}
	for i, r := range v.Pairs {
		out.Pairs[i] = pairJSON{A: sideJSON{r.A.Path, r.Result.A}, B: sideJSON{r.B.Path, r.Result.B}, Result: r.Result}
	}
	return out
}

// notes name the facts about the profiles that look like differences of the programs.
func (v *Overlap) notes() []string {
	all := append(fewSamples(v.profiles), caveats(v.profiles, v.by)...)
	for _, r := range v.Pairs {
		all = append(all, cutNote(r.A, r.B, r.CutAt)...)
	}
	return all
}
