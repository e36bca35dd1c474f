package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var overlapQuestion = Question{
	Name:    "overlap",
	Subject: OfMany,
	Layout:  overlapLayout,
	Short:   "Say how far profiles agree",
	Long: `Overlap says how far profiles agree in methods, edges and contexts, in percent, and how
far two profiles of one behaviour would, by chance. The verdict is: same within noise,
differs, or too few samples to tell. More than two files give a matrix of all pairs.

With --check the exit code is 1 if a pair differs, 5 if one has too few samples to
tell and none differs, and else 0. docs/comparing.md explains the figures,
docs/formats.md the JSON.`,
	Example: `  ccmapd overlap before.pb.gz after.pb.gz
  ccmapd overlap --by samples run1.json run2.json run3.json
  ccmapd overlap --absorb '^libc' ccmapd.pb.gz other.pb.gz     not in the other one
  ccmapd overlap --min 80 golden.xml new.pb.gz || echo 'the profile has changed'
  ccmapd overlap --check --tolerance 5 golden.xml new.pb.gz    in CI`,
	New: func() *Form {
		var c comparison
		// The seed is fixed: the same files give the same verdict.
		o := compare.Options{Tau: compare.DefaultTau, Tolerance: compare.DefaultTolerance, Seed: 1}
		return &Form{
			Params: c.params([]compare.Weight{compare.ByTime, compare.BySamples, compare.ByActivations},
				Param{Name: "tau", Value: &o.Tau, Most: 1, Over: true, Help: "edges are hot from this `PART` of the hottest one's weight, 0 to 1"},
				Param{Name: "tolerance", Value: &o.Tolerance, Most: 100, Unit: "points",
					Help: "`POINTS` that runs of one program may differ by beyond noise, 0 to 100"},
				Param{Name: "any-unit", Value: &o.AnyUnit,
					Help: "compare profiles of different units, too, such as CPU time and instructions, by their shares"}),
			Answer: func(a About) (View, error) {
				o.Weight, o.Absorb = c.by, c.absorbs()
				return NewOverlap(a.Profiles, o)
			},
		}
	},
}

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

var overlapColumns = columns[*Overlap]{
	col("", "weight", "time, samples or activations", func(v *Overlap) string { return v.by.String() }),
	array("pairs", "every profile with all after it", pairColumns, func(_ *Profile, v *Overlap) []Pair { return v.Pairs }),
	notesMember((*Overlap).notes),
}

var pairColumns = columns[Pair]{
	object("a", "profile A", sideColumns, func(_ *Profile, r Pair) *side { return &side{r.A, r.Result.A} }),
	object("b", "profile B", sideColumns, func(_ *Profile, r Pair) *side { return &side{r.B, r.Result.B} }),
	col("", "weight", "time, samples or activations", func(r Pair) string { return r.Weight.String() }),
	agreement("methods", "one counter for each method", func(r Pair) compare.Overlap { return r.Methods }),
	agreement("edges", "one counter for each caller, offset and callee", func(r Pair) compare.Overlap { return r.Edges }),
	agreement("contexts", "one counter for each sub-path of a stack", func(r Pair) compare.Overlap { return r.Contexts }),
	col("", "pearson", "correlation of the method totals, −1 to 1", func(r Pair) float64 { return r.Pearson }),
	col("", "spearman", "correlation of their ranks", func(r Pair) float64 { return r.Spearman }),
	object("coverage", "hot edges of each profile that the other has", coverageColumns, func(_ *Profile, r Pair) *compare.Coverage { return &r.Coverage }),
	col("", "verdict", "same within noise, differs, or too few samples to tell", func(r Pair) string { return r.Verdict.String() }),
	col("", "verdict_by", "contexts, or edges if contexts were pruned", func(r Pair) string { return r.VerdictBy }),
	col("", "tolerance", "points beyond noise that are tolerated", func(r Pair) float64 { return r.Tolerance }),
	array("families,omitempty", "the contexts that differ most", familyColumns, func(_ *Profile, r Pair) []compare.Family { return r.Families }),
	col("", "union_nodes", "contexts in either profile", func(r Pair) int { return r.UnionNodes }),
	col("", "cut_at,omitempty", "compared frames of each stack, the innermost, if one profile has no more", func(r Pair) int { return r.CutAt }),
	array("left_out,omitempty", "what only one of both profiles can have", leftOutColumns, func(_ *Profile, r Pair) []compare.LeftOut { return r.LeftOut }),
}

func agreement(key, doc string, get func(Pair) compare.Overlap) column[Pair] {
	return object(key, doc, agreementColumns, func(_ *Profile, r Pair) *overlapRow { return &overlapRow{key, get(r)} })
}

var agreementColumns = columns[overlapRow]{
	col("by", "", "counters of a kind", func(r overlapRow) string { return r.name }),
	col("overlap", "percent", "sum of the smaller weights", func(r overlapRow) percent { return percent(r.Percent) }),
	col("", "floor", "the lower of both floors", func(r overlapRow) percent { return percent(r.Floor) }),
	col("floor-A", "floor_a", "overlap of two halves of profile A", func(r overlapRow) percent { return percent(r.FloorA) }),
	col("floor-B", "floor_b", "overlap of two halves of profile B", func(r overlapRow) percent { return percent(r.FloorB) }),
	col("expected", "expected", "overlap of two profiles of one behaviour, by chance", func(r overlapRow) percent { return percent(r.Expected) }).
		printed(func(_ *Profile, r overlapRow) string {
			return fmt.Sprintf("%s ±%.1f", figure.Percent(r.Expected), r.Interval)
		}),
	col("", "deviation", "its standard deviation", func(r overlapRow) percent { return percent(r.Deviation) }),
	col("", "interval", "points below expected that one behaviour reaches once in a hundred times", func(r overlapRow) percent { return percent(r.Interval) }),
	col("", "unexplained", "points of the difference that noise does not explain", func(r overlapRow) percent { return percent(r.Unexplained) }),
	col("counters", "counters", "counters in either profile", func(r overlapRow) count { return count(r.Counters) }),
}

var coverageColumns = columns[compare.Coverage]{
	col("", "tau", "a hot edge has this part of the hottest edge's weight, or more", func(c compare.Coverage) float64 { return c.Tau }),
	col("", "hot_a", "hot edges of profile A", func(c compare.Coverage) count { return count(c.HotA) }),
	col("", "hot_b", "hot edges of profile B", func(c compare.Coverage) count { return count(c.HotB) }),
	col("", "ab", "part of A's hot edges that B has", func(c compare.Coverage) percent { return percent(c.AB) }),
	col("", "ba", "part of B's hot edges that A has", func(c compare.Coverage) percent { return percent(c.BA) }),
}

// side is one profile of a comparison.
type side struct {
	*Profile
	compared compare.Profile
}

var sideColumns = columns[side]{
	col("", "file", "path that the profile was read from", func(s side) string { return s.Path }),
	col("", "samples", "of the profile", func(s side) samples { return samples(s.compared.Samples) }),
	col("", "independent", "effective sample size", func(s side) samples { return samples(s.compared.Independent) }),
	col("", "weight", "samples, activations, or in the profile's unit", func(s side) int64 { return s.compared.Weight }),
	col("", "pruned", "part of the weight whose contexts were pruned", func(s side) percent { return percent(s.compared.Pruned) }),
	col("", "start,omitempty", "of sampling", func(s side) time.Time { return s.compared.Start }),
	col("", "duration_ns", "wall time sampled; 0: unknown", func(s side) time.Duration { return s.compared.Duration }),
	col("", "activations_exact", "activations are numbers, not lower bounds", func(s side) bool { return s.compared.ActivationsExact }),
	col("", "shortest_interval_ns", "setting of the interval; 0: unknown", func(s side) time.Duration { return s.compared.ShortestInterval }),
	col("", "longest_interval_ns", "setting of the interval; 0: unknown", func(s side) time.Duration { return s.compared.LongestInterval }),
}

// notesMember declares the notes of a comparison.
func notesMember[R any](of func(R) []string) column[R] {
	return col("", "notes", "facts that can be mistaken for a difference", of)
}

var overlapLayout = layout("by overlap expected",
	"by overlap expected floor-A floor-B counters", overlapColumns.list(""))

func (v *Overlap) printPair(out *terminal.Printer, r Pair, o TextOptions) error {
	s := newSheet(r.A, overlapLayout, o)
	s.title("by", "by "+v.by.String())
	for _, row := range []overlapRow{{"methods", r.Methods}, {"edges", r.Edges}, {"contexts", r.Contexts}} {
		addRow(s, agreementColumns, row)
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
	array("path", "the longest of them, innermost frame first", pathColumns, func(_ *Profile, f compare.Family) []compare.Frame { return f.Path }),
	col("", "paths", "number of contexts", func(f compare.Family) count { return count(f.Paths) }),
	col("points", "points", "part of the difference", func(f compare.Family) float64 { return f.Points }).
		printed(func(_ *Profile, f compare.Family) string { return fmt.Sprintf("%.2f", f.Points) }),
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

// JSON lists the pairs.
func (v *Overlap) JSON() any { return overlapColumns.json(nil, v) }

// notes name the facts about the profiles that look like differences of the programs.
func (v *Overlap) notes() []string {
	all := append(fewSamples(v.profiles), caveats(v.profiles, v.by)...)
	for _, r := range v.Pairs {
		all = append(all, cutNote(r.A, r.B, r.CutAt)...)
		all = append(all, leftOutNotes(r.A, r.B, r.LeftOut)...)
	}
	return all
}
