package view

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var linesQuestion = Question{
	Name:    "lines",
	Subject: OfMethod,
	Layout:  linesLayout,
	Short:   "List the lines of a method, with the time of each",
	Long: `Lines lists the lines of a method that samples were taken in, or that call what samples
were taken in, in their order.

  self     of the line itself
  cum      and of all that it calls; share: of all lines

A sample counts once, by the outermost frame of the method on its stack: so the lines
add up to the method. Line '–' has samples whose position is not known.

METHOD is a name, or as much of its end as is unique ('Server.handle').
docs/formats.md explains the JSON.`,
	Example: `  ccmapd lines web.pb.gz Server.handle
  ccmapd lines --json @web runtime.mallocgc`,
	New: func() *Form {
		var l List
		return &Form{Answer: ofMethods(&l, func(p *Profile) (View, error) {
			if l.Methods == nil {
				return nil, &Error{Code: CodeUsage, Err: errors.New("lines wants method=NAME or match=REGEXP")}
			}
			return NewLines(p, l.Methods), nil
		})}
	},
}

// Lines lists the lines of methods.
type Lines struct {
	profile *Profile
	total   ccmap.Counters
	rows    []lineRow
}

// lineRow is a line of a method.
type lineRow struct {
	lineKey
	method    ccmap.Method
	self, cum ccmap.Counters
	whole     ccmap.Counters // of all lines
}

type lineKey struct {
	id   ccmap.MethodID
	line int32 // 0: not known
}

// NewLines lists the lines of methods. A sample counts in the outermost frame of any of them.
func NewLines(p *Profile, methods query.Methods) *Lines {
	v, rows := &Lines{profile: p}, make(map[lineKey]*lineRow)
	at := func(id ccmap.MethodID, offset uint32) *lineRow {
		k := lineKey{id, p.Names().Line(ccmap.Frame{Method: id, Offset: offset})}
		if rows[k] == nil {
			rows[k] = &lineRow{lineKey: k, method: p.Names().At(id)}
		}
		return rows[k]
	}
	outermost := make(map[ccmap.NodeID]ccmap.MethodID)
	for n := range query.Outermost(p.Snapshot, func(n ccmap.Node) bool { return methods.Has(n.Method) }) {
		outermost[n.ID] = n.Method
		v.total = v.total.Add(p.Inclusive(n.ID))
		at(n.Method, ccmap.NoOffset).add(n.Self, n.Self)
	}
	for n := range p.Nodes() {
		method, inside := outermost[n.Parent]
		switch {
		case !inside || n.Parent == n.ID:
		case n.IsPosition():
			at(method, n.Offset).add(n.Self, n.Self)
		default:
			at(method, n.Offset).add(ccmap.Counters{}, p.Inclusive(n.ID))
		}
	}
	for _, r := range slices.SortedFunc(maps.Values(rows), compareLines) {
		if r.whole = v.total; r.cum.Samples != 0 || r.cum.Time != 0 {
			v.rows = append(v.rows, *r)
		}
	}
	return v
}

func (r *lineRow) add(self, cum ccmap.Counters) {
	self.Activations, cum.Activations = 0, 0 // lines are not called
	r.self, r.cum = r.self.Add(self), r.cum.Add(cum)
}

func compareLines(a, b *lineRow) int {
	return cmp.Or(cmp.Compare(a.method.File, b.method.File), cmp.Compare(a.line, b.line),
		cmp.Compare(a.method.Name, b.method.Name), cmp.Compare(a.method.Signature, b.method.Signature))
}

var linesColumns = columns[*Lines]{
	profileMember(func(v *Lines) *Profile { return v.profile }),
	counted("total", "the methods, once for every sample", func(v *Lines) *ccmap.Counters { return &v.total }),
	array("lines", "in their order, by file", lineColumns, func(_ *Profile, v *Lines) []lineRow { return v.rows }),
}

var lineColumns = columns[lineRow]{
	object("self", "samples in the line itself", amountColumns.named("", "self", ""), func(_ *Profile, r lineRow) *ccmap.Counters { return &r.self }),
	object("cum", "and in what it calls", amountColumns.named("", "cum", "of-all"), func(_ *Profile, r lineRow) *ccmap.Counters { return &r.cum }),
	shareOf("", func(_ *Profile, r lineRow) part { return part{r.cum, r.whole} }),
	col("method", "method", "the method", func(r lineRow) string { return r.method.Name }).
		printed(func(p *Profile, r lineRow) string { return p.title(r.method) }),
	col("", "signature,omitempty", "tells methods of one name apart", func(r lineRow) string { return r.method.Signature }),
	col("", "file,omitempty", "its file", func(r lineRow) string { return r.method.File }),
	col("line", "line,omitempty", "in the file; missing: not known", func(r lineRow) int64 { return int64(r.line) }).
		printed(func(_ *Profile, r lineRow) string {
			if r.line == 0 {
				return terminal.Unknown
			}
			return strconv.Itoa(int(r.line))
		}),
}

var linesLayout = layout("self cum share line method", "self cum share of-all line method", linesColumns.list(""))

// Text prints a table of lines.
func (v *Lines) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, linesLayout, o)
	for _, r := range v.rows {
		addRow(s, lineColumns, r)
	}
	return s.print(w, 0, v.profile.lowerBounds("Lines")...)
}

// JSON describes the profile and lists the lines.
func (v *Lines) JSON() any { return linesColumns.json(v.profile, v) }
