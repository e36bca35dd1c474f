package main

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is text in columns, two spaces apart. In a pipe, names are bounded: see
// [table.clip]. On a terminal the table is made to fit:
// columns that can be shortened share what is left by the others, and if that
// is less than they need, the most dispensable column goes. One that says
// nothing goes everywhere.
type table struct {
	columns []column
	rows    [][]string // a row may be shorter than columns
}

type column struct {
	title string
	right bool // aligned to the right, for figures

	// shorten cuts a cell to a width in runes; nil: the column is never cut.
	shorten func(cell string, width int) string
	least   int // runes that the column is cut to at most

	drop int // columns with a higher rank are dropped sooner; 0: never
}

// columnGap separates columns.
const columnGap = "  "

func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	t.rows = append(t.rows, cells)
}

// widestInPipe is how many runes a cell has in a pipe at most, unless its column
// needs more: paths in Go's own library have fewer.
const widestInPipe = 56

// write prints the table in lines of at most width runes, as far as its columns
// allow; unbounded lines are as long as they need, those in a pipe have short names.
func (t *table) write(w io.Writer, width int) error {
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
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	t.writeRow(out, titles, widths)
	for _, row := range t.rows {
		t.writeRow(out, row, widths)
	}
	return out.Flush()
}

// clip bounds the columns that can be shortened.
func (t *table) clip(widths []int) {
	for i, c := range t.columns {
		if c.shorten != nil {
			widths[i] = min(widths[i], max(c.least, widestInPipe))
		}
	}
}

// dropped is the width of a column that is not printed.
const dropped = -1

func (t *table) naturalWidths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.title)
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// saysNothing reports whether a column may be dropped and has nothing in it but
// what is unknown.
func (t *table) saysNothing(i int) bool {
	return t.columns[i].drop > 0 && !slices.ContainsFunc(t.rows, func(row []string) bool {
		return i < len(row) && row[i] != "" && row[i] != unknown
	})
}

// fit reduces widths until a line has at most width runes or nothing is left to
// reduce.
func (t *table) fit(widths []int, width int) {
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

// shrink takes excess runes from the columns that can be shortened, always from
// the widest. It reports whether they had that many to give, and otherwise
// changes nothing but in the last resort, when no column can be dropped.
func (t *table) shrink(widths []int, excess int) bool {
	spare := 0
	for i, c := range t.columns {
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
func (c column) spare(width int) int {
	if c.shorten == nil || width == dropped {
		return 0
	}
	return max(0, width-c.least)
}

func (t *table) widest(widths []int) int {
	widest := -1
	for i, c := range t.columns {
		if c.spare(widths[i]) > 0 && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func (t *table) mostDispensable(widths []int) int {
	found := -1
	for i, c := range t.columns {
		if c.drop > 0 && widths[i] != dropped && (found < 0 || c.drop > t.columns[found].drop) {
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

func (t *table) writeRow(out *bufio.Writer, cells []string, widths []int) {
	var line []string
	for i, c := range t.columns {
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

func (c column) cut(cell string, width int) string {
	if c.shorten == nil || utf8.RuneCountInString(cell) <= width {
		return cell
	}
	return c.shorten(cell, width)
}

func (c column) pad(cell string, width int) string {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell)))
	if c.right {
		return space + cell
	}
	return cell + space
}
