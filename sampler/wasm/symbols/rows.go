package symbols

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/ccmapd/ccmapd/sampler/wasm/debuginfo"
)

// rows hold a unit's line table by address. Rows of dropped code are left out, and rows
// on no line.
type rows []row

// row says that the addresses from its own up to the next are on a line.
type row struct {
	address uint32
	file    uint32
	line    int32 // from 1; 0: the end of a sequence
}

// rows reads the lines of a unit, as far as they are well-formed.
func (l *lineInfo) rows(u *debuginfo.Unit) rows {
	table, ok := l.data.Lines(u)
	if !ok {
		return nil
	}
	c := rowCollector{l: l}
	c.begin()
	_ = table.EachRow(c.add) // the sequences before a defect are good
	all := c.rows[:c.sequence]
	slices.SortStableFunc(all, compareRows)
	return all
}

// compareRows orders by address. A sequence that begins where another ends comes after it.
func compareRows(a, b row) int {
	return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(min(a.line, 1), min(b.line, 1)))
}

// rowCollector takes the rows of a program, sequence by sequence.
type rowCollector struct {
	l        *lineInfo
	rows     rows
	sequence int    // index of the first row of this sequence
	low      uint64 // lowest address of this sequence
}

func (c *rowCollector) begin() { c.sequence, c.low = len(c.rows), math.MaxUint64 }

// add takes a row, if it is on a line. Lines beyond 2³¹ and files beyond 2³² are left out.
func (c *rowCollector) add(r *debuginfo.Row) {
	const rowBytes = 24
	switch {
	case r.End:
		c.end(r.Address)
		return
	case r.Line > 0 && r.Line <= math.MaxInt32 && r.File <= math.MaxUint32 && c.l.budget.Keep(rowBytes):
		c.rows = append(c.rows, row{uint32(min(r.Address, math.MaxUint32)), uint32(r.File), int32(r.Line)})
	}
	c.low = min(c.low, r.Address)
}

// end adds the end of a sequence, or drops a sequence without code of the module: an empty
// one, or one that the linker has moved away, see [lineInfo.ranges].
func (c *rowCollector) end(address uint64) {
	if c.low == 0 || c.low >= address || address > c.l.code {
		c.rows = c.rows[:c.sequence]
	} else {
		c.rows = append(c.rows, row{address: uint32(address)})
	}
	c.begin()
}

// at returns the row of an address, not below low. Where the compiler says that no line
// is to blame for it, that is the last before it with a line: as LLVM's symbolizer
// does with --skip-line-zero. Without one it returns the zero row.
func (t rows) at(low, address uint64) row {
	i := sort.Search(len(t), func(i int) bool { return uint64(t[i].address) > address })
	if i == 0 || uint64(t[i-1].address) < low || t[i-1].line == 0 {
		return row{}
	}
	return t[i-1]
}

// firstIn returns the first row of a range that is on a line, or the zero row.
func (t rows) firstIn(low, high uint64) row {
	i := sort.Search(len(t), func(i int) bool { return uint64(t[i].address) >= low })
	for ; i < len(t) && uint64(t[i].address) < high; i++ {
		if t[i].line > 0 {
			return t[i]
		}
	}
	return row{}
}

func (t rows) covers(low, high uint64) bool { return t.firstIn(low, high).line > 0 }
