package view

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var diffQuestion = Question{
	Name:    "diff",
	Subject: OfTwo,
	Layout:  diffLayout,
	Short:   "List what changed between two profiles",
	Long: `Diff lists the changes from profile A to profile B, the largest first: methods and edges
with all they call, and contexts, which are whole stacks down to a method.

  change  in points: the share in B less the share in A; "new" is not in A, "gone" not
          in B. What grows makes all else smaller
  p       how probable such a change, or a larger one, is anywhere in the list if
          nothing changed. Without --all only p under 0.05 is listed; under ten
          independent samples are never significant
docs/comparing.md explains the test, docs/formats.md the JSON.`,
	Example: `  ccmapd diff before.pb.gz after.pb.gz
  ccmapd diff --methods -n 50 before.pb.gz after.pb.gz
  ccmapd diff --all --contexts before.pb.gz after.pb.gz     not only what is significant
  ccmapd diff --json a.pb.gz b.pb.gz | jq '.contexts.list[0].path[].method'`,
	New: func() *Form {
		var c comparison
		var lists DiffLists
		var o compare.DiffOptions
		limit := uint(10)
		return &Form{
			Params: c.params([]compare.Weight{compare.ByTime, compare.BySamples},
				Param{Name: "methods", Value: &lists.Methods, Help: "list methods"},
				Param{Name: "edges", Value: &lists.Edges, Help: "list edges"},
				Param{Name: "contexts", Value: &lists.Contexts, Help: "list contexts"},
				Param{Name: "limit", Letter: "n", Value: &limit, Help: "list at most `N` of each; 0: all"},
				Param{Name: "all", Value: &o.All, Help: "list changes that are not significant, too"},
				Param{Name: "least", Value: &o.Least, Most: 100, Unit: "points", Help: "call no change of less than `POINTS` significant"}),
			Answer: func(a About) (View, error) {
				o.Weight, o.Absorb, o.Limit = c.by, c.absorbs(), int(min(limit, math.MaxInt))
				return NewDiff(a.Profiles[0], a.Profiles[1], lists, o)
			},
		}
	},
}

// DiffLists says which lists of changes a [Diff] has; none is set: all that mean anything.
type DiffLists struct{ Methods, Edges, Contexts bool }

// Diff lists the changes from one profile to another.
type Diff struct {
	compare.Diff
	a, b    *Profile
	by      compare.Weight
	lists   DiffLists
	unasked bool // contexts would be listed, but were pruned
}

// NewDiff lists the changes from a to b. Pruned contexts differ by the choice of the kept
// ones, so they are listed only if they are asked for. Its errors name the two files.
func NewDiff(a, b *Profile, lists DiffLists, o compare.DiffOptions) (*Diff, error) {
	d, err := compare.Differences(a.Snapshot, b.Snapshot, o)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", a.Path, b.Path, err)
	}
	v := &Diff{Diff: d, a: a, b: b, by: o.Weight, lists: lists}
	if lists == (DiffLists{}) {
		v.unasked = a.IsPruned() || b.IsPruned()
		v.lists = DiffLists{true, true, !v.unasked}
	}
	return v, nil
}

var diffColumns = columns[*Diff]{
	object("a", "profile A", sideColumns, func(_ *Profile, v *Diff) *side { return &side{v.a, v.A} }),
	object("b", "profile B", sideColumns, func(_ *Profile, v *Diff) *side { return &side{v.b, v.B} }),
	col("", "weight", "time or samples", func(v *Diff) string { return v.Weight.String() }),
	col("", "level", "highest probability that a list names a change at all if nothing changed", func(v *Diff) float64 { return v.Level }),
	col("", "least", "smallest change that is called significant, in points", func(v *Diff) float64 { return v.Least }),
	col("", "cut_at,omitempty", "compared frames of each stack, the innermost, if one profile has no more", func(v *Diff) int { return v.CutAt }),
	array("left_out,omitempty", "what only one of both profiles can have", leftOutColumns, func(_ *Profile, v *Diff) []compare.LeftOut { return v.LeftOut }),
	object("methods,omitempty", "with all their callees", listColumns, func(_ *Profile, v *Diff) *compare.Changes { return given(v.Methods, v.lists.Methods) }),
	object("edges,omitempty", "calls of one method by another, at one position", listColumns, func(_ *Profile, v *Diff) *compare.Changes { return given(v.Edges, v.lists.Edges) }),
	object("contexts,omitempty", "whole stacks down to a method", listColumns, func(_ *Profile, v *Diff) *compare.Changes { return given(v.Contexts, v.lists.Contexts) }),
	notesMember((*Diff).notes),
}

var leftOutColumns = columns[compare.LeftOut]{
	col("", "what", "time in the kernel, or a method", func(l compare.LeftOut) string { return l.What }),
	col("", "why", "one profile cannot have it", func(l compare.LeftOut) string { return l.Why }),
	col("", "callers", "it counts for its callers, else not at all", func(l compare.LeftOut) bool { return l.Callers }),
	col("", "share_a", "share of profile A", func(l compare.LeftOut) percent { return percent(l.ShareA) }),
	col("", "share_b", "share of profile B", func(l compare.LeftOut) percent { return percent(l.ShareB) }),
}

var listColumns = columns[compare.Changes]{
	array("list", "the largest changes first", changeColumns, func(_ *Profile, c compare.Changes) []compare.Change { return c.List }),
	col("", "significant", "significant changes, with those beyond the limit", func(c compare.Changes) count { return count(c.Significant) }),
	col("", "tested", "items with enough samples to be significant", func(c compare.Changes) count { return count(c.Tested) }),
	col("", "more", "changes beyond the limit", func(c compare.Changes) count { return count(c.More) }),
	col("", "detectable", "change in points, from or to a share of 10 %, that is found nine times in ten; 0: nothing was tested, 100: none can be found", func(c compare.Changes) float64 { return c.Detectable }),
}

var changeColumns = columns[compare.Change]{
	array("path", "innermost first: the method, its callers", pathColumns, func(_ *Profile, r compare.Change) []compare.Frame { return r.Path }),
	col("A", "share_a", "share of profile A; in tables, new: it has no samples there", func(r compare.Change) percent { return percent(r.ShareA) }).
		printed(func(_ *Profile, r compare.Change) string { return share(r.ShareA, r.SamplesA, "new") }),
	col("B", "share_b", "share of profile B; in tables, gone: it has no samples there", func(r compare.Change) percent { return percent(r.ShareB) }).
		printed(func(_ *Profile, r compare.Change) string { return share(r.ShareB, r.SamplesB, "gone") }),
	col("change", "points", "share in B less the share in A, in points", func(r compare.Change) float64 { return r.Points }).
		printed(func(_ *Profile, r compare.Change) string { return fmt.Sprintf("%+.1f", r.Points) }),
	col("samples-A", "samples_a", "samples of profile A in the share", func(r compare.Change) count { return count(r.SamplesA) }),
	col("samples-B", "samples_b", "samples of profile B in the share", func(r compare.Change) count { return count(r.SamplesB) }),
	col("p", "p", "probability of such a change, or a larger one, anywhere in the list if nothing changed", func(r compare.Change) float64 { return r.P }).
		printed(func(_ *Profile, r compare.Change) string { return formatP(r.P) }),
	col("", "significant", "the change is significant", func(r compare.Change) bool { return r.Significant }),
}

var diffLayout = layout("change A B item", "change A B samples-A samples-B p item location", diffColumns.list(""))

// Text prints a table for each list.
func (v *Diff) Text(w io.Writer, o TextOptions) error {
	out := terminal.NewPrinter(w, o.Wide)
	printLegend(out, []*Profile{v.a, v.b}, []string{"A", "B"}, o.All)
	for _, l := range []struct {
		wanted bool
		noun   string
		compare.Changes
	}{
		{v.lists.Methods, "method", v.Methods},
		{v.lists.Edges, "edge", v.Edges},
		{v.lists.Contexts, "context", v.Contexts},
	} {
		if !l.wanted {
			continue
		}
		if err := v.printChanges(out, l.noun, l.Changes, o); err != nil {
			return err
		}
	}
	if v.unasked {
		out.Line("\ncontexts: not compared, as some were pruned%s", v.a.hint(HintContexts, "; "))
	}
	printNotes(out, v.notes())
	return out.Err()
}

// printChanges prints a list of changes of one kind, and how far to trust it.
func (v *Diff) printChanges(out *terminal.Printer, noun string, c compare.Changes, o TextOptions) error {
	s := newSheet(v.a, diffLayout, o)
	out.Line("\n%ss: %s", noun, significance(c))
	if len(c.List) == 0 {
		return s.err
	}
	s.title("item", noun)
	for _, x := range c.List {
		addPath(s, x.Path, cellsOf(s, changeColumns, x))
	}
	out.Table("", &s.Table)
	if c.More > 0 {
		out.Line("%s and %s more%s", terminal.Ellipsis, figure.Count(int64(c.More)), v.a.hint(HintRows, ": "))
	}
	return s.err
}

// significance says how many changes are significant, and always how large a change had to be.
func significance(c compare.Changes) string {
	tested := figure.Count(int64(c.Tested)) + " tested"
	switch {
	case c.Tested == 0:
		return "too few samples to test any"
	case c.Significant == 0 && c.Detectable == 100:
		return fmt.Sprintf("no significant change of %s; with so few samples hardly one could show", tested)
	case c.Significant == 0:
		return fmt.Sprintf("no significant change of %s; one of %.1f points in a share of 10%% would have shown", tested, c.Detectable)
	}
	found := figure.Plural(int64(c.Significant), "significant change")
	if c.Detectable == 100 {
		return fmt.Sprintf("%s of %s; with so few samples hardly another could show", found, tested)
	}
	return fmt.Sprintf("%s of %s; in a share of 10%% one shows from %.1f points on", found, tested, c.Detectable)
}

// share prints a share, or a word if there are no samples.
func share(percent float64, samples int64, none string) string {
	if samples == 0 {
		return none
	}
	return figure.Percent(percent)
}

// formatP prints a probability, to two digits if it is large enough to matter.
func formatP(p float64) string {
	if p < 1e-4 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}

// JSON has the chosen lists of changes.
func (v *Diff) JSON() any { return diffColumns.json(nil, v) }

func (v *Diff) notes() []string {
	notes := append(caveats([]*Profile{v.a, v.b}, v.by), cutNote(v.a, v.b, v.CutAt)...)
	return append(notes, leftOutNotes(v.a, v.b, v.LeftOut)...)
}

// shownFrames is how many frames of a path are printed: the innermost ones.
const shownFrames = 7

var pathColumns = columns[compare.Frame]{
	col("item", "method", "the method, edge or context, and below it its callers", func(f compare.Frame) string { return f.Method }).
		printed(func(_ *Profile, f compare.Frame) string { return frameTitle(f) }),
	col("", "signature,omitempty", "tells methods of one name apart", func(f compare.Frame) string { return f.Signature }),
	col("location", "file,omitempty", "file of the source; in tables, where each frame is", func(f compare.Frame) string { return f.File }).
		printed(func(_ *Profile, f compare.Frame) string { return location(f) }),
	col("", "line,omitempty", "line of the call or, in the innermost frame, of the declaration", func(f compare.Frame) int32 { return f.Line }),
	col("", "position,omitempty", "of a call whose line is unknown, or may have several calls: +0x3c", func(f compare.Frame) string { return f.Position }),
}

// addPath adds a row with figures and the innermost frame of a path, and below it a row
// for each of the callers.
func addPath(s *sheet, path []compare.Frame, figures cells) {
	for i, f := range path {
		row := cellsOf(s, pathColumns, f)
		if i == 0 {
			maps.Copy(row, figures)
		} else if row["item"] = "  ← " + frameTitle(f); i == shownFrames {
			s.add(cells{"item": "  ← " + terminal.Ellipsis})
			return
		}
		s.add(row)
	}
}

func frameTitle(f compare.Frame) string {
	return methodTitle(ccmap.Method{Name: f.Method, Signature: f.Signature})
}

// location prints where a frame is in its source: "" if that is unknown.
func location(f compare.Frame) string {
	if f.File == "" || f.Line == 0 {
		return f.File + f.Position
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// printLegend describes the samples of each profile, in a line.
func printLegend(out *terminal.Printer, profiles []*Profile, labels []string, all bool) {
	for i, p := range profiles {
		extent := p.taken()
		if all {
			extent = p.Extent()
		}
		out.Line("%s  %s: %s", labels[i], terminal.Printable(p.Path), extent)
	}
}

func printNotes(out *terminal.Printer, notes []string) {
	if len(notes) > 0 {
		out.Line("")
	}
	for _, note := range notes {
		out.Line("note: %s", note)
	}
}

// enoughSamples is where an overlap of contexts begins to mean something: with 1,500
// samples, two runs of one program overlapped by 84 to 93 % inclusively.
const enoughSamples = 1000

// fewSamples says which profiles have so few samples that noise looks like a difference.
func fewSamples(profiles []*Profile) []string {
	few := []string{} // not nil, for JSON
	for _, p := range distinct(profiles) {
		if samples := p.Total().Samples; p.countsSamples() && samples < enoughSamples {
			few = append(few, fmt.Sprintf("%s has only %s: under %s, most differences are noise.",
				p.Path, figure.Plural(samples, "sample"), figure.Count(enoughSamples)))
		}
	}
	return few
}

// caveats name the facts that profiles lack which are compared.
func caveats(profiles []*Profile, by compare.Weight) []string {
	notes := []string{} // not nil, for JSON
	if len(distinct(profiles)) == 1 {
		notes = append(notes, profiles[0].Path+" is compared with itself.")
	}
	for _, p := range distinct(profiles) {
		if !p.countsSamples() {
			notes = append(notes, p.Path+" does not say how many samples it has: what is noise is not known.")
		}
		for _, warning := range p.Warnings() {
			notes = append(notes, p.Path+": "+warning+".")
		}
		if caveat := p.prunedCaveat(); caveat != "" {
			notes = append(notes, caveat)
		}
		if by == compare.ByActivations && !p.ActivationsExact() {
			notes = append(notes, p.Path+" has lower bounds of activations, not their numbers.")
		}
	}
	if by == compare.BySamples && intervalsDiffer(profiles) {
		notes = append(notes, "the sampling intervals differ"+profiles[0].hint(HintIntervals, ": ")+".")
	}
	return notes
}

// cutNote says that stacks were cut, if they were.
func cutNote(a, b *Profile, frames int) []string {
	if frames == 0 {
		return nil
	}
	return []string{fmt.Sprintf("one of %s and %s has no stacks of more than %d frames, at which runtime/pprof cuts them: of both, the innermost %d of each are compared.",
		a.Path, b.Path, frames, frames)}
}

// leftOutNotes say what only one of two profiles can have, and how much that is.
func leftOutNotes(a, b *Profile, left []compare.LeftOut) (notes []string) {
	for _, l := range left {
		became := "is left out of both"
		if l.Callers {
			became = "counts for its callers"
		}
		var parts []string
		if l.ShareA > 0 {
			parts = append(parts, figure.Percent(l.ShareA)+" of "+a.Path)
		}
		if l.ShareB > 0 {
			parts = append(parts, figure.Percent(l.ShareB)+" of "+b.Path)
		}
		notes = append(notes, fmt.Sprintf("%s (%s) %s: %s.", l.What, strings.Join(parts, ", "), became, l.Why))
	}
	return notes
}

// distinct leaves out profiles that are compared with themselves.
func distinct(profiles []*Profile) []*Profile {
	var out []*Profile
	for _, p := range profiles {
		if !slices.ContainsFunc(out, func(q *Profile) bool { return q.Path == p.Path }) {
			out = append(out, p)
		}
	}
	return out
}

// intervalsDiffer reports whether the profiles used more than one interval, as far as they
// say.
func intervalsDiffer(profiles []*Profile) bool {
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
