package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var flameDiffQuestion = Question{
	Name:    "flamediff",
	Subject: OfTwo,
	Layout:  flameDiffLayout,
	Short:   "Show what changed between two profiles, in the tree of calls of both",
	Long: `Flamediff shows the stacks of two profiles as one tree. A frame that has the --width'th
part of either profile is shown, the others are summed up as '(n more)'.

  A, B    the frame's share of each profile, with all that it calls
  change  in points: the share in B less the share in A. It is there only where 'diff'
          lists the context: other differences can be noise, or are those of a callee
  p       how probable such a change, or a larger one, is anywhere if nothing changed

docs/comparing.md explains the test, docs/formats.md the JSON.`,
	Example: `  ccmapd flamediff before.pb.gz after.pb.gz
  ccmapd flamediff --width 1000 @best:web @web`,
	New: func() *Form {
		var o FlameOptions
		return &Form{
			Params: flameParams(&o, widestBy[:2]),
			Answer: func(a About) (View, error) { return NewFlameDiff(a.Profiles[0], a.Profiles[1], o) },
		}
	},
}

// FlameDiff is the tree of calls of two profiles, laid out as one flame graph. A frame that has 1/Width of either
// profile is shown, at the sum of both shares.
type FlameDiff struct {
	Width int // frames of less than 1/Width of both profiles were summed up

	a, b    *Profile
	options FlameOptions
	measure [2]measure
	cut     bool // Width was halved
	of      *lexicon
	bars    []bar
	changes []*compare.Change // by bar; nil: none that is significant
	found   compare.Diff
}

// NewFlameDiff lays out the flame graph of two profiles, from the roots down: Focus and Invert are not used. Only
// changes that [NewDiff] lists are marked. Its errors are the ones of NewDiff and [NewFlame].
func NewFlameDiff(a, b *Profile, o FlameOptions) (*FlameDiff, error) {
	found, err := compare.Differences(a.Snapshot, b.Snapshot, compare.DiffOptions{Weight: o.By})
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", a.Path, b.Path, err)
	}
	v := &FlameDiff{a: a, b: b, options: o, measure: [2]measure{a.measureBy(o.By), b.measureBy(o.By)}, found: found}
	f := &forest{lexicon: newLexicon(), whole: true}
	for _, p := range []*Profile{a, b} {
		t := newTrunk(p.Snapshot, f.lexicon, true)
		t.roots = []spot{{}}
		f.trunks = append(f.trunks, t)
	}
	root, err := f.rootOf(o.Root)
	if err != nil {
		return nil, err
	}
	v.of = f.lexicon
	part := func(side int, c [2]ccmap.Counters) float64 {
		return v.measure[side].part(c[side], root.total[side])
	}
	v.bars, v.Width, v.cut = f.fit(root, o, widths{
		drawn: func(c [2]ccmap.Counters) float64 { return part(0, c) + part(1, c) },
		cut:   func(c [2]ccmap.Counters) float64 { return max(part(0, c), part(1, c)) },
	})
	v.changes = f.changes(v.bars, found.Contexts.List)
	return v, nil
}

// changes returns the change of each bar, nil for none. A change is of the context with the same frames.
func (f *forest) changes(bars []bar, listed []compare.Change) []*compare.Change {
	byPath := make(map[string]*compare.Change, len(listed))
	for i := range listed {
		byPath[pathKey(listed[i].Path)] = &listed[i]
	}
	return list(bars, func(b bar) *compare.Change { return byPath[pathKey(f.frames(b))] })
}

// frames returns the frames of a bar as package compare lists them: innermost first, each caller at its call.
func (f *forest) frames(b bar) (path []compare.Frame) {
	offset := uint32(ccmap.NoOffset)
	for n := b.node; n.ID != 0; n = b.trunk.Node(n.Parent) {
		number := b.trunk.numbers[n.Method]
		m := f.methods[number]
		frame := compare.Frame{Method: m.Name, Signature: m.Signature}
		if len(path) > 0 {
			frame.Line = f.lineOf(step{number, offset})
			if frame.Line == 0 || m.Coordinate != ccmap.CoordinateLine {
				frame.Position = m.Coordinate.Format(offset)
			}
		}
		path, offset = append(path, frame), n.Offset
	}
	return path
}

// pathKey tells paths apart by their methods and calls.
func pathKey(path []compare.Frame) string {
	var key strings.Builder
	for i, frame := range path {
		if i == 0 {
			frame.Line = 0 // of the declaration
		}
		fmt.Fprintf(&key, "%s\x00%s\x00%d\x00%s\x00", frame.Method, frame.Signature, frame.Line, frame.Position)
	}
	return key.String()
}

var flameDiffColumns = columns[*FlameDiff]{
	object("a", "profile A", sideColumns, func(_ *Profile, v *FlameDiff) *side { return &side{v.a, v.found.A} }),
	object("b", "profile B", sideColumns, func(_ *Profile, v *FlameDiff) *side { return &side{v.b, v.found.B} }),
	col("", "by", "what width is: time or samples", func(v *FlameDiff) string { return v.options.By.String() }),
	col("", "width", "frames of less than this part of the root in both are summed up, as its divisor", func(v *FlameDiff) count { return count(v.Width) }),
	col("", "narrowed,omitempty", "there were too many frames: width is less than was asked for", func(v *FlameDiff) bool { return v.cut }),
	col("", "significant", "contexts with a significant change, shown or not", func(v *FlameDiff) count { return count(v.found.Contexts.Significant) }),
	col("", "detectable", "as of diff", func(v *FlameDiff) float64 { return v.found.Contexts.Detectable }),
	array("methods", "of the frames", methodNameColumns, func(_ *Profile, v *FlameDiff) []ccmap.Method { return methodsOf(v.of, v.bars, wholeTitle) }),
	object("frames", "columns of the frames, parents first, siblings by the sum of both shares", frameDiffColumns, func(_ *Profile, v *FlameDiff) **FlameDiff { return &v }),
	array("changes", "of the frames that have a significant one", frameChangeColumns, func(_ *Profile, v *FlameDiff) []frameChange { return v.marked() }),
	notesMember((*FlameDiff).notes),
}

var frameDiffColumns = slices.Concat(placement(func(v *FlameDiff) []bar { return v.bars }), columns[*FlameDiff]{
	inBar("A", "value_a", "of profile A, in its unit or samples", 0, func(b bar) ccmap.Counters { return b.total[0] }),
	inBar("B", "value_b", "of profile B, likewise", 1, func(b bar) ccmap.Counters { return b.total[1] }),
	inBar("", "self_a", "part of value_a that was sampled in the frame", 0, func(b bar) ccmap.Counters { return b.self[0] }),
	inBar("", "self_b", "part of value_b likewise", 1, func(b bar) ccmap.Counters { return b.self[1] }),
	inBar("", "rest_a", "part of value_a in frames that are too narrow", 0, func(b bar) ccmap.Counters { return b.rest[0] }),
	inBar("", "rest_b", "part of value_b likewise", 1, func(b bar) ccmap.Counters { return b.rest[1] }),
	col("samples-A", "samples_a", "samples of profile A", func(v *FlameDiff) []int64 { return list(v.bars, func(b bar) int64 { return b.total[0].Samples }) }),
	col("samples-B", "samples_b", "samples of profile B", func(v *FlameDiff) []int64 { return list(v.bars, func(b bar) int64 { return b.total[1].Samples }) }),
	col("path", "", "the frame, below its caller", func(*FlameDiff) string { return "" }),
})

func inBar(name, key, doc string, side int, of func(bar) ccmap.Counters) column[*FlameDiff] {
	return col(name, key, doc, func(v *FlameDiff) []int64 {
		return list(v.bars, func(b bar) int64 { return v.measure[side].of(of(b)) })
	})
}

// frameChange is a change and the number of its frame.
type frameChange struct {
	frame int
	*compare.Change
}

var frameChangeColumns = columns[frameChange]{
	col("", "frame", "number in frames", func(c frameChange) int { return c.frame }),
	col("change", "points", "share in B less the share in A, in points", func(c frameChange) float64 { return c.Points }),
	col("p", "p", "probability of such a change, or a larger one, anywhere if nothing changed", func(c frameChange) float64 { return c.P }),
}

func (v *FlameDiff) marked() (all []frameChange) {
	for i, c := range v.changes {
		if c != nil {
			all = append(all, frameChange{i, c})
		}
	}
	return all
}

var flameDiffLayout = layout("change A B path", "change A B samples-A samples-B p path", flameDiffColumns.list(""))

// Text prints the tree, with the changes that are significant.
func (v *FlameDiff) Text(w io.Writer, o TextOptions) error {
	out := terminal.NewPrinter(w, o.Wide)
	printLegend(out, []*Profile{v.a, v.b}, []string{"A", "B"}, o.All)
	s := newSheet(v.a, flameDiffLayout, o)
	for i, b := range v.bars {
		row := v.cells(b.total)
		if c := v.changes[i]; c != nil {
			row["change"], row["p"] = fmt.Sprintf("%+.1f", c.Points), formatP(c.P)
		}
		row["path"] = indent(b.depth) + v.title(b)
		s.add(row)
		for ended := range endingAt(v.bars, i) {
			row := v.cells(ended.rest)
			row["path"] = ended.restTitle()
			s.add(row)
		}
	}
	out.Line("\ncontexts: %s", significance(v.found.Contexts))
	out.Table("", &s.Table)
	printNotes(out, v.notes())
	if s.err != nil {
		return s.err
	}
	return out.Err()
}

func (v *FlameDiff) title(b bar) string {
	if b.method == 0 {
		return wholeTitle
	}
	return methodTitle(v.of.methods[b.method])
}

func (v *FlameDiff) cells(c [2]ccmap.Counters) cells {
	row := cells{}
	for side, name := range []string{"A", "B"} {
		row[name] = figure.Percent(100 * v.measure[side].part(c[side], v.bars[0].total[side]))
		row["samples-"+name] = figure.Count(c[side].Samples)
	}
	return row
}

func (v *FlameDiff) notes() []string {
	notes := append(caveats([]*Profile{v.a, v.b}, v.options.By), cutNote(v.a, v.b, v.found.CutAt)...)
	for _, left := range v.found.LeftOut {
		notes = append(notes, fmt.Sprintf("the tree has %s, which the test leaves out, as only one profile can have it: shares differ from those of the changes.", left.What))
	}
	if v.cut {
		notes = append(notes, tooMany(v.Width))
	}
	return notes
}

// JSON describes both profiles, and lists the frames as columns and the changes.
func (v *FlameDiff) JSON() any { return flameDiffColumns.json(nil, v) }
