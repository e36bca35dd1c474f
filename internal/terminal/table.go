package terminal

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is text in columns, two spaces apart. In a pipe, names are bounded: see
// [Table.clip]. On a terminal the table is made to fit: columns that can be shortened
// share the room that the others leave. If they need more, the column that is easiest to
// miss goes. A column without any content goes everywhere.
type Table struct {
	Columns []Column
	Rows    [][]string // a row may be shorter than Columns
}

// Column is a column of a table.
type Column struct {
	Title string
	Right bool // aligned to the right, for figures

	Shorten func(cell string, width int) string // cuts a cell to a width in runes; nil: never cut
	Least   int                                 // runes that a cell keeps when it is cut

	Drop int // columns with a higher rank are dropped sooner; 0: never
}

// Unknown is the cell of a figure that is not known.
const Unknown = "–"

// columnGap separates Columns.
const columnGap = "  "

// Add adds a row. It makes the cells printable.
func (t *Table) Add(cells ...string) {
	for i, cell := range cells {
		cells[i] = Printable(cell)
	}
	t.Rows = append(t.Rows, cells)
}

// widestInPipe is how many runes a cell has in a pipe at most, unless its column
// needs more: paths in Go's own library have fewer.
const widestInPipe = 56

// write prints the table in lines of at most width runes, as far as its Columns
// allow; unbounded lines are as long as they need, those in a pipe have short names.
func (t *Table) write(w io.Writer, width int) error {
	widths := t.naturalWidths()
	for i := range widths {
		if t.saysNothing(i) {
			widths[i] = dropped
		}
	}
	switch {
	case width > 0:
		t.fit(widths, width)
	case width == inPipe:
		t.clip(widths)
	}
	out := bufio.NewWriter(w)
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	t.writeRow(out, titles, widths)
	for _, row := range t.Rows {
		t.writeRow(out, row, widths)
	}
	return out.Flush()
}

// clip bounds the Columns that can be shortened.
func (t *Table) clip(widths []int) {
	for i, c := range t.Columns {
		if c.Shorten != nil {
			widths[i] = min(widths[i], max(c.Least, widestInPipe))
		}
	}
}

// dropped is the width of a column that is not printed.
const dropped = -1

func (t *Table) naturalWidths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Title)
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// saysNothing reports whether a column may be dropped and has nothing in it but
// what is Unknown.
func (t *Table) saysNothing(i int) bool {
	return t.Columns[i].Drop > 0 && !slices.ContainsFunc(t.Rows, func(row []string) bool {
		return i < len(row) && row[i] != "" && row[i] != Unknown
	})
}

// fit reduces widths until a line has at most width runes or nothing is left to
// reduce.
func (t *Table) fit(widths []int, width int) {
	for {
		excess := lineWidth(widths) - width
		if excess <= 0 || t.shrink(widths, excess) {
			return
		}
		i := t.mostDispensable(widths)
		if i < 0 {
			return
		}
		widths[i] = dropped
	}
}

// shrink takes excess runes from the Columns that can be shortened, always from
// the widest. It reports whether they had that many to give, and otherwise
// changes nothing but in the last resort, when no column can be dropped.
func (t *Table) shrink(widths []int, excess int) bool {
	spare := 0
	for i, c := range t.Columns {
		spare += c.spare(widths[i])
	}
	enough := spare >= excess
	if !enough && t.mostDispensable(widths) >= 0 {
		return false
	}
	for range min(excess, spare) {
		widths[t.widest(widths)]--
	}
	return enough
}

// spare returns how many runes a column of this width can give.
func (c Column) spare(width int) int {
	if c.Shorten == nil || width == dropped {
		return 0
	}
	return max(0, width-c.Least)
}

func (t *Table) widest(widths []int) int {
	widest := -1
	for i, c := range t.Columns {
		if c.spare(widths[i]) > 0 && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func (t *Table) mostDispensable(widths []int) int {
	found := -1
	for i, c := range t.Columns {
		if c.Drop > 0 && widths[i] != dropped && (found < 0 || c.Drop > t.Columns[found].Drop) {
			found = i
		}
	}
	return found
}

func lineWidth(widths []int) int {
	sum := -len(columnGap)
	for _, w := range widths {
		if w != dropped {
			sum += w + len(columnGap)
		}
	}
	return sum
}

func (t *Table) writeRow(out *bufio.Writer, cells []string, widths []int) {
	var line []string
	for i, c := range t.Columns {
		if widths[i] == dropped {
			continue
		}
		cell := ""
		if i < len(cells) {
			cell = c.cut(cells[i], widths[i])
		}
		line = append(line, c.pad(cell, widths[i]))
	}
	out.WriteString(strings.TrimRight(strings.Join(line, columnGap), " "))
	out.WriteByte('\n')
}

func (c Column) cut(cell string, width int) string {
	if c.Shorten == nil || utf8.RuneCountInString(cell) <= width {
		return cell
	}
	return c.Shorten(cell, width)
}

func (c Column) pad(cell string, width int) string {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell)))
	if c.Right {
		return space + cell
	}
	return cell + space
}
