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
func (v *Overlap) Text(w io.Writer, o TextOptions) error {
	out := terminal.NewPrinter(w, o.Wide)
	if len(v.Pairs) == 1 {
		if err := v.printPair(out, v.Pairs[0], o); err != nil {
			return err
		}
	} else {
		v.printMatrices(out, o)
	}
	printNotes(out, v.notes())
	return out.Err()
}

// overlapRow is the overlap in counters of one kind.
type overlapRow struct {
	name string
	compare.Overlap
}

var overlapColumns = columns[overlapRow]{
	col("by", "", "counters of a kind", func(r overlapRow) string { return r.name }),
	col("overlap", "percent", "sum of the smaller weights", func(r overlapRow) percent { return percent(r.Percent) }),
	col("expected", "expected", "overlap of two profiles of one behaviour, by chance", func(r overlapRow) string { return expected(r.Overlap) }),
	col("floor-A", "floor_a", "overlap of two halves of profile A", func(r overlapRow) percent { return percent(r.FloorA) }),
	col("floor-B", "floor_b", "overlap of two halves of profile B", func(r overlapRow) percent { return percent(r.FloorB) }),
	col("counters", "counters", "counters in either profile", func(r overlapRow) count { return count(r.Counters) }),
}

// OverlapLayout returns the columns of an [Overlap] of two profiles.
func OverlapLayout() Layout {
	return layout("by overlap expected",
		"by overlap expected floor-A floor-B counters", overlapColumns.list("pairs[].contexts."))
}

func (v *Overlap) printPair(out *terminal.Printer, r Pair, o TextOptions) error {
	s := newSheet(r.A, OverlapLayout(), o)
	s.title("by", "by "+v.by.String())
	for _, row := range []overlapRow{{"methods", r.Methods}, {"edges", r.Edges}, {"contexts", r.Contexts}} {
		addRow(s, overlapColumns, row)
	}
	printLegend(out, v.profiles, []string{"A", "B"}, o.All)
	out.Table("", &s.Table)
	out.Line("")
	if o.All {
		out.Line("correlation  Pearson %.3f, Spearman %.3f", r.Pearson, r.Spearman)
		out.Line("coverage     B has %s of A's %s, A has %s of B's %s",
			figure.Percent(r.Coverage.AB), figure.Plural(int64(r.Coverage.HotA), "hot edge"),
			figure.Percent(r.Coverage.BA), figure.Plural(int64(r.Coverage.HotB), "hot edge"))
		out.Line("noise        is that of %s", noiseOf(r.Result.A, r.Result.B))
	}
	printVerdict(out, r, o.All)
	return s.err
}

// expected prints how far two profiles of one behaviour would overlap, and the interval
// that the verdict goes by.
func expected(o compare.Overlap) string {
	return fmt.Sprintf("%s ±%.1f", figure.Percent(o.Expected), o.Interval)
}

// printMatrices prints a table of all pairs for each figure.
func (v *Overlap) printMatrices(out *terminal.Printer, o TextOptions) {
	labels := make([]string, len(v.profiles))
	for i := range labels {
		labels[i] = strconv.Itoa(i + 1)
	}
	printLegend(out, v.profiles, labels, o.All)
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
func printVerdict(out *terminal.Printer, r Pair, all bool) {
	beyond := r.Decisive().Unexplained
	switch r.Verdict {
	case compare.Same:
		out.Line("verdict      %v: %s are %.1f points beyond it, %v are tolerated", r.Verdict, r.VerdictBy, beyond, r.Tolerance)
	case compare.TooFew:
		out.Line("verdict      %v", r.Verdict)
	case compare.Differs:
		out.Line("verdict      %v: %s are %.1f points beyond noise, %v are tolerated", r.Verdict, r.VerdictBy, beyond, r.Tolerance)
		printFamilies(out, r, all)
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
func printFamilies(out *terminal.Printer, r Pair, all bool) {
	if len(r.Families) == 0 {
		if hint := r.A.hint(HintChanges, ""); hint != "" {
			out.Line("\n%s", hint)
		}
		return
	}
	s := newSheet(r.A, familiesLayout, TextOptions{All: all})
	s.title("item", "context")
	points := 0.0
	for _, f := range r.Families {
		points += f.Points
		addPath(s, f.Path, cellsOf(s, familyColumns, f))
	}
	out.Table(fmt.Sprintf("%s account for %.1f of the %.1f points:",
		these(len(r.Families)), points, 100-r.Contexts.Percent), &s.Table)
}

var familiesLayout = layout("points A B item", "points A B samples-A samples-B item location", nil)

var familyColumns = columns[compare.Family]{
	col("points", "points", "part of the difference", func(f compare.Family) string { return fmt.Sprintf("%.2f", f.Points) }),
	col("A", "share_a", "share of profile A", func(f compare.Family) percent { return percent(f.ShareA) }),
	col("B", "share_b", "share of profile B", func(f compare.Family) percent { return percent(f.ShareB) }),
	col("samples-A", "samples_a", "samples of profile A", func(f compare.Family) count { return count(f.SamplesA) }),
	col("samples-B", "samples_b", "samples of profile B", func(f compare.Family) count { return count(f.SamplesB) }),
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
