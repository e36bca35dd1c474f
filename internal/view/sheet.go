package view

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// sheet is a table with some of the columns of a layout.
type sheet struct {
	terminal.Table
	profile *Profile
	names   []string // of its columns
	options TextOptions
	err     error  // a chosen column that the layout lacks
	closing string // what to know of the rows, before how far to trust them
}

// newSheet returns a table with the columns that the options choose.
func newSheet(p *Profile, l Layout, o TextOptions) *sheet {
	s := &sheet{profile: p, names: l.First, options: o}
	if o.All {
		s.names = l.All
	}
	if len(o.Columns) > 0 {
		s.names, s.err = l.Find(o.Columns)
	}
	for _, name := range s.names {
		c := tableColumn(name, l.isText(name))
		if len(o.Columns) > 0 {
			c.Drop = 0
		}
		s.Columns = append(s.Columns, c)
	}
	return s
}

// title gives a column another title than its name.
func (s *sheet) title(name, title string) {
	if i := slices.Index(s.names, name); i >= 0 {
		s.Columns[i].Title = title
	}
}

// cells are the cells of a row, by the names of their columns.
type cells map[string]string

// cellsOf prints a row in the columns of a sheet.
func cellsOf[R any](s *sheet, cs columns[R], r R) cells {
	row := cells{}
	fill(s, cs, r, row)
	return row
}

func fill[R any](s *sheet, cs columns[R], r R, row cells) {
	for _, c := range cs {
		if c.fill != nil {
			c.fill(s, r, row)
		}
		if c.Name != "" && slices.Contains(s.names, c.Name) {
			row[c.Name] = c.cell(s.profile, r)
		}
	}
}

// addRow adds a row of some type to a sheet.
func addRow[R any](s *sheet, cs columns[R], r R) { s.add(cellsOf(s, cs, r)) }

// add adds a row. Cells without a column are left out, columns without a cell stay empty.
func (s *sheet) add(row cells) {
	line := make([]string, len(s.names))
	for i, name := range s.names {
		line[i] = row[name]
	}
	s.Add(line...)
}

// drops ranks the columns that a narrow terminal has no room for, the highest first.
var drops = map[string]int{
	"location": 5, "activations": 4, "of-all": 4, "samples": 3, "samples-A": 3, "samples-B": 3,
	"origin": 2, "recent%": 2, "calls": 1, "of-calls": 1, "share": 0, "p": 1,
}

// isText reports whether a column has words, not figures.
func (l Layout) isText(name string) bool {
	return slices.ContainsFunc(l.Columns, func(c Column) bool { return c.Name == name && c.Type == "string" })
}

// tableColumn returns how the column of a name looks. Figures are aligned to the right.
func tableColumn(name string, isText bool) terminal.Column {
	c := terminal.Column{Title: strings.ReplaceAll(name, "-", " "), Drop: drops[name]}
	switch name {
	case "method", "call-site", "context", "path", "point", "item":
		c.Shorten, c.Least = terminal.ShortenMethod, 34
	case "labels":
		c.Shorten, c.Least = terminal.ShortenMiddle, 34
	case "location":
		c.Shorten, c.Least = terminal.ShortenLocation, 16
	case "targets": // with a word for their number
	default:
		if c.Right = !isText; isText {
			c.Shorten, c.Least = terminal.ShortenMiddle, 24
		}
	}
	return c
}

// print writes a description of the profile, notes on the table, the table, how many rows
// it leaves out, and how far to trust it.
func (s *sheet) print(w io.Writer, more int, notes ...string) error {
	if s.err != nil {
		return s.err
	}
	p, out := s.profile, terminal.NewPrinter(w, s.options.Wide)
	out.Text(p.describe(s.options.All))
	for _, note := range notes {
		out.Text(note)
	}
	if len(s.Rows) > 0 {
		out.Table("", &s.Table)
	}
	if more > 0 {
		out.Line("%s and %s more%s", terminal.Ellipsis, figure.Count(int64(more)), p.hint(HintRows, ": "))
	}
	if s.options.Brief || len(s.Rows) == 0 {
		return out.Err()
	}
	last := slices.DeleteFunc([]string{s.closing, strings.TrimSpace(p.judgement() + " " + p.held())}, func(text string) bool { return text == "" })
	for i, text := range last {
		if i == 0 {
			out.Line("")
		}
		out.Line("%s", text)
	}
	return out.Err()
}

// addPart adds a row of figures, and a few cells beside them.
func (s *sheet) addPart(c, whole ccmap.Counters, beside cells) {
	row := cellsOf(s, partColumns, part{c, whole})
	maps.Copy(row, beside)
	s.add(row)
}
