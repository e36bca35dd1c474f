package view

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var flameQuestion = Question{
	Name:    "flame",
	Subject: OfMethods,
	Layout:  flameLayout,
	Short:   "Show the tree of calls, a flame graph as text",
	Long: `Flame shows the stacks of a profile as a tree, from the outermost frames down. Frames
that are narrower than the --width'th part of the whole are summed up as '(n more)':
--root shows what is below one frame, cut by its own width.

With METHOD the tree has what it calls, from the outermost frames of the method: a
sample counts once. With --invert it has its callers, or without METHOD the callers of
all methods that samples were taken in. METHOD may be a path, 'A > B > C'.

With --by activations a frame is as wide as the calls that samples saw in and below it.

In JSON (docs/formats.md) frames are columns, parents first, each with an id: the same
in every snapshot, and in builds whose names and calls are the same.`,
	Example: `  ccmapd flame web.pb.gz
  ccmapd flame --width 1000 web.pb.gz 'Server.handle'
  ccmapd flame web.pb.gz 'Server.handle > json.Marshal'
  ccmapd flame --root 2f4d07c1e5a0b9d3 web.pb.gz      what is below one frame`,
	New: func() *Form {
		var o FlameOptions
		return &Form{
			Params: flameParams(&o, widestBy, Param{Name: "invert", Value: &o.Invert, Help: "show callers, not callees"}),
			Answer: func(a About) (v View, err error) {
				if a.Text != "" {
					if o.Focus, err = focusOf(a); err != nil {
						return nil, err
					}
				}
				return NewFlame(a.Profiles[0], o)
			},
		}
	},
}

// What a graph shows without a wish, and the most frames ever.
const (
	usualWidth  = 100
	usualFrames = 8192
	mostFrames  = 100_000
)

// widestBy is what may be the width of frames of one profile. Changes are tested by the first two alone.
var widestBy = []compare.Weight{compare.ByTime, compare.BySamples, compare.ByActivations}

// flameParams are the parameters of a graph, and others.
func flameParams(o *FlameOptions, by []compare.Weight, others ...Param) []Param {
	o.Width, o.Frames = usualWidth, usualFrames
	words := list(by, compare.Weight.String)
	return append([]Param{
		{Name: "by", Value: &o.By, Words: words, Help: "width is `BY` " + terminal.OrList(words)},
		{Name: "width", Value: &o.Width, Least: 1, Most: 1 << 20, Help: "sum up frames of less than 1/`N` of the whole"},
		{Name: "frames", Value: &o.Frames, Least: 1, Most: mostFrames, Help: "show at most `N` frames: if there are more, width is halved"},
		{Name: "root", Value: &o.Root, Help: "show what is below the frame of an `ID`, as JSON has it"},
	}, others...)
}

func focusOf(a About) (*query.Query, error) {
	path, err := query.ParsePath(a.Text)
	if err != nil {
		return nil, &Error{Code: CodeUsage, Err: err}
	}
	return query.New(a.Profiles[0].Snapshot, path, a.Find)
}

// FlameOptions say what a flame graph shows. The zero options are useful.
type FlameOptions struct {
	Focus  *query.Query   // made for the snapshot of the profile; nil: the whole profile
	Invert bool           // to the callers; else to the callees
	By     compare.Weight // ByTime, BySamples or, of one profile, ByActivations
	Width  uint           // frames under 1/Width of the root are summed up; 0: 100
	Frames uint           // at most; if there are more, Width is halved. 0: 8,192
	Root   string         // id of the frame to begin with, in hexadecimal; "": the root
}

// Flame is a tree of calls, laid out as a flame graph and cut to what is wide enough to be seen.
//
// Frames are parents first; siblings are in the order of their width. The total of a frame is its own, of its
// children and of the rest, in samples and time; in activations only if they are the width.
type Flame struct {
	Width int // frames of less than 1/Width were summed up

	profile *Profile
	measure measure // of the widths
	options FlameOptions
	cut     bool // Width was halved
	of      *lexicon
	bars    []bar
}

// NewFlame lays out a flame graph. The errors have the codes of [ErrorOf].
func NewFlame(p *Profile, o FlameOptions) (*Flame, error) {
	v := &Flame{profile: p, measure: p.measureBy(o.By), options: o}
	if v.measure.calls && v.measure.total == 0 && p.Total().Samples > 0 {
		return nil, &Error{Code: CodeUsage, Err: errors.New("the profile knows no activations"), Hint: "Ask by time or samples."}
	}
	f := &forest{lexicon: newLexicon(), up: o.Invert, whole: o.Focus == nil, calls: v.measure.calls}
	t := newTrunk(p.Snapshot, f.lexicon, !o.Invert)
	if f.calls {
		t.sumCalls()
	}
	f.trunks, v.of = []*trunk{t}, f.lexicon
	switch {
	case o.Focus != nil:
		for begin, end := range o.Focus.Outermost() {
			at := end.ID
			if o.Invert {
				at = begin.ID
			}
			t.roots = append(t.roots, spot{at, end.ID})
		}
	case o.Invert:
		t.roots = t.selves(f.calls)
	default:
		t.roots = []spot{{}}
	}
	root, err := f.rootOf(o.Root)
	if err != nil {
		return nil, err
	}
	part := func(c [2]ccmap.Counters) float64 { return v.measure.part(c[0], root.total[0]) }
	v.bars, v.Width, v.cut = f.fit(root, o, widths{part, part})
	return v, nil
}

// measureBy returns the measure of a profile by time, if it has any, by samples, or by calls.
func (p *Profile) measureBy(w compare.Weight) measure {
	switch w {
	case compare.BySamples:
		return measure{total: p.Total().Samples, unit: ccmap.SampleCount}
	case compare.ByActivations:
		return measure{total: p.Total().Activations, calls: true, unit: ccmap.NewUnit(w.String(), ccmap.SampleCount.Base())}
	}
	return p.measure
}

// part returns c as a part of a whole, 0 to 1.
func (m measure) part(c, whole ccmap.Counters) float64 {
	return figure.Share(m.of(c), m.of(whole)) / 100
}

// rootOf returns the frame that the graph begins with.
func (f *forest) rootOf(id string) (*branch, error) {
	if id == "" {
		return f.root(), nil
	}
	path, err := strconv.ParseUint(id, 16, 64)
	if err != nil || len(id) != 16 {
		return nil, &Error{Code: CodeUsage, Err: fmt.Errorf("%q is not the id of a frame", id), Hint: "It has 16 hexadecimal digits, as frames.id of JSON."}
	}
	root, ok := f.find(path)
	if !ok {
		return nil, &Error{Code: CodeNoTarget, Err: fmt.Errorf("no frame has the id %s", id), Hint: "Ask with the same method and direction as for the graph that has the frame."}
	}
	return root, nil
}

// fit cuts a tree by the width that is asked for, or by half, a quarter and so on of it, until there are few enough
// frames.
func (f *forest) fit(root *branch, o FlameOptions, of widths) (bars []bar, width int, halved bool) {
	most, width := int(min(o.Frames, mostFrames)), int(min(o.Width, math.MaxInt32))
	if most == 0 {
		most = usualFrames
	}
	if width == 0 {
		width = usualWidth
	}
	for ; ; width, halved = width/2, true {
		if bars, ok := f.cut(root, pruning{of, width, most}); ok {
			return bars, width, halved
		}
	}
}

// focus names the root: "" for the whole profile.
func (o FlameOptions) focus() string {
	if o.Focus == nil {
		return ""
	}
	return o.Focus.Path.String()
}

// wholeTitle is the root of a graph of the whole profile.
const wholeTitle = "(all)"

var flameColumns = columns[*Flame]{
	profileMember(func(v *Flame) *Profile { return v.profile }),
	col("", "by", "what width is: time, samples or activations", func(v *Flame) string { return v.options.By.String() }),
	col("", "focus,omitempty", "the method or path that the graph begins with", func(v *Flame) string { return v.options.focus() }),
	col("", "invert,omitempty", "frames are above their callees: the graph has callers", func(v *Flame) bool { return v.options.Invert }),
	col("", "width", "frames of less than this part of the root are summed up, as its divisor", func(v *Flame) count { return count(v.Width) }),
	col("", "narrowed,omitempty", "there were too many frames: width is less than was asked for", func(v *Flame) bool { return v.cut }),
	array("methods", "of the frames", methodNameColumns, func(_ *Profile, v *Flame) []ccmap.Method { return v.methods() }),
	object("frames", "columns of the frames, parents first, siblings by width", frameColumns, func(_ *Profile, v *Flame) **Flame { return &v }),
	col("", "notes,omitempty", "what the graph sums up, or cannot tell", (*Flame).notes),
}

// methods returns the methods that the frames name by number; 0 is the root of the tree.
func (v *Flame) methods() []ccmap.Method {
	return methodsOf(v.of, v.bars, v.title(0))
}

// methodsOf returns the methods of bars, by the numbers of renumbered.
func methodsOf(l *lexicon, bars []bar, root string) []ccmap.Method {
	all := []ccmap.Method{{Name: root}}
	seen := make(map[uint32]bool)
	for _, b := range bars {
		if b.method != 0 && !seen[b.method] {
			seen[b.method] = true
			all = append(all, l.methods[b.method])
		}
	}
	return all
}

// renumbered returns the methods of bars as numbers in methodsOf.
func renumbered(bars []bar) []int64 {
	numbers := map[uint32]int64{0: 0}
	return list(bars, func(b bar) int64 {
		n, known := numbers[b.method]
		if !known {
			n = int64(len(numbers))
			numbers[b.method] = n
		}
		return n
	})
}

func list[T, V any](rows []T, get func(T) V) []V {
	all := make([]V, len(rows))
	for i, r := range rows {
		all[i] = get(r)
	}
	return all
}

var methodNameColumns = columns[ccmap.Method]{
	col("", "method", "name of the method, or of the root", func(m ccmap.Method) string { return m.Name }),
	col("", "signature,omitempty", "tells methods of one name apart", func(m ccmap.Method) string { return m.Signature }),
	col("", "file,omitempty", "file of the source", func(m ccmap.Method) string { return m.File }),
}

// placement are the columns of frames of all graphs.
func placement[R any](of func(R) []bar) columns[R] {
	each := func(get func(bar) int64) func(R) []int64 {
		return func(r R) []int64 { return list(of(r), get) }
	}
	return columns[R]{
		col("", "id", "hash of the path from the root", func(r R) []string { return list(of(r), bar.id) }),
		col("", "parent", "number of the frame above; of the root, its own", each(func(b bar) int64 { return int64(b.parent) })),
		col("", "method", "number in methods", func(r R) []int64 { return renumbered(of(r)) }),
		col("", "offset", "of the call, in the caller; -1: none", each(bar.callOffset)),
		col("", "line", "of the call; 0: unknown", each(func(b bar) int64 { return int64(b.line) })),
		col("", "more", "frames below that are summed up in rest", each(func(b bar) int64 { return int64(b.more) })),
	}
}

func (b bar) id() string { return fmt.Sprintf("%016x", b.path) }

func (b bar) callOffset() int64 {
	if b.offset == ccmap.NoOffset {
		return -1
	}
	return int64(b.offset)
}

var frameColumns = append(placement(func(v *Flame) []bar { return v.bars }),
	col("cum", "value", "width, in the profile's unit, samples or activations", func(v *Flame) []int64 { return v.values(func(b bar) ccmap.Counters { return b.total[0] }) }),
	col("self", "self", "part of value that ends here: sampled in the frame or, inverted, called by nothing", func(v *Flame) []int64 { return v.values(func(b bar) ccmap.Counters { return b.self[0] }) }),
	col("", "rest", "part of value in frames that are too narrow", func(v *Flame) []int64 { return v.values(func(b bar) ccmap.Counters { return b.rest[0] }) }),
	col("samples", "samples", "samples in the frame and below", func(v *Flame) []int64 { return list(v.bars, func(b bar) int64 { return b.total[0].Samples }) }),
	col("activations", "activations", "calls that samples have seen: exact, or a lower bound", func(v *Flame) []int64 { return list(v.bars, v.calls) }),
	col("share", "", "share of the graph", func(*Flame) percent { return 0 }),
	col("path", "", "the frame, below its caller", func(*Flame) string { return "" }),
	col("location", "", "place of the call", func(*Flame) string { return "" }),
)

var flameLayout = layout("cum share path", "cum self share samples activations path location", flameColumns.list(""))

func (v *Flame) values(of func(bar) ccmap.Counters) []int64 {
	return list(v.bars, func(b bar) int64 { return v.measure.of(of(b)) })
}

// calls returns the activations of a frame alone.
func (v *Flame) calls(b bar) int64 {
	if v.measure.calls {
		return b.self[0].Activations
	}
	return b.total[0].Activations
}

// title names a frame.
func (v *Flame) title(i int) string {
	switch method := v.bars[i].method; {
	case method != 0:
		return v.profile.title(v.of.methods[method])
	case v.options.Focus != nil:
		return v.options.focus()
	}
	return wholeTitle
}

// deepest is how many levels are indented.
const deepest = 40

func indent(depth int) string { return strings.Repeat(" ", min(depth, deepest)) }

// Text prints the tree.
func (v *Flame) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, flameLayout, o)
	for i, b := range v.bars {
		row := v.cells(b.total[0])
		row["self"], row["samples"] = v.measure.format(b.self[0]), v.profile.formatSamples(b.total[0].Samples)
		row["activations"] = v.profile.formatActivations(v.calls(b))
		row["path"] = indent(b.depth) + v.title(i)
		row["location"] = v.location(b)
		s.add(row)
		v.addRest(s, i)
	}
	return s.print(w, 0, v.notes()...)
}

// addRest adds what is left out below a frame, unless frames below it follow: then it is after them.
func (v *Flame) addRest(s *sheet, i int) {
	for b := range endingAt(v.bars, i) {
		row := v.cells(b.rest[0])
		row["path"] = b.restTitle()
		s.add(row)
	}
}

func (b bar) restTitle() string {
	return indent(b.depth+1) + "(" + figure.Count(int64(b.more)) + " more)"
}

// endingAt walks the bars with a rest whose last bar below them is bar i, the innermost first.
func endingAt(bars []bar, i int) iter.Seq[bar] {
	return func(yield func(bar) bool) {
		next := -1
		if i+1 < len(bars) {
			next = bars[i+1].depth
		}
		for at := i; bars[at].depth >= next; at = bars[at].parent {
			if bars[at].more > 0 && !yield(bars[at]) || at == 0 {
				return
			}
		}
	}
}

func (v *Flame) cells(c ccmap.Counters) cells {
	return cells{"cum": v.measure.format(c), "share": figure.Percent(100 * v.measure.part(c, v.bars[0].total[0]))}
}

// location is the place of a call, in the file of its caller.
func (v *Flame) location(b bar) string {
	caller := v.of.methods[v.bars[b.parent].method]
	if v.options.Invert {
		caller = v.of.methods[b.method]
	}
	if caller.File == "" || b.line == 0 {
		return ""
	}
	return caller.File + ":" + strconv.Itoa(int(b.line))
}

func (v *Flame) notes() (notes []string) {
	if v.cut {
		notes = append(notes, tooMany(v.Width))
	}
	if v.options.Focus != nil {
		notes = append(notes, v.profile.lowerBounds("These frames")...)
	}
	if v.measure.calls && !v.profile.ActivationsExact() {
		notes = append(notes, "Activations are lower bounds, not numbers of calls.")
	}
	return slices.Clip(notes)
}

func tooMany(width int) string {
	return fmt.Sprintf("There are too many frames: those under 1/%d of the whole are summed up.", width)
}

// JSON describes the profile, and lists the frames as columns.
func (v *Flame) JSON() any { return flameColumns.json(v.profile, v) }
