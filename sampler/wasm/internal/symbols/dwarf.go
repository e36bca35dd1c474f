package symbols

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
)

// lineInfo is the DWARF of a module. The first request finds the units, and the first
// request for a function of a unit reads that unit. All fields are under mu.
type lineInfo struct {
	mu       sync.Mutex
	sections debuginfo.Sections
	budget   *debuginfo.Budget
	code     uint64 // bytes of the code section's content: addresses are below it
	data     *debuginfo.Data
	spans    []span  // of all units, by low
	silent   []*unit // units that do not say where their code is
	found    map[*function]found
}

// found is the unit and the subprogram of a function's code, or the zero value.
type found struct {
	*unit
	*subprogram
}

// span is a range of addresses with code of a unit.
type span struct {
	low, high uint64
	unit      *unit
}

func newLineInfo(m *module, b *debuginfo.Budget) *lineInfo {
	return &lineInfo{
		sections: m.debug, budget: b, code: uint64(m.code), found: map[*function]found{},
	}
}

// declaration returns where a function is declared. If that is unknown, it returns the
// position of its first instruction.
func (l *lineInfo) declaration(f *function) (file string, line int32) {
	l.read(f, func(u *unit, s *subprogram) {
		file, line = s.file, s.line
	})
	return file, line
}

// line returns the line of an address in the function's own file.
func (l *lineInfo) line(f *function, address uint64) (line int32) {
	l.read(f, func(u *unit, s *subprogram) {
		switch file, at := l.position(u, s, address); {
		case file == s.file:
			line = at
		case at == 0 && u.rows.covers(address, s.high): // code before its first line
			line = s.line
		}
	})
	return line
}

// read calls use with the unit and the subprogram of a function, if they are known.
func (l *lineInfo) read(f *function, use func(*unit, *subprogram)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data == nil {
		l.open()
	}
	k, ok := l.found[f]
	if !ok {
		k = l.find(f)
		l.found[f] = k
	}
	if k.subprogram != nil {
		use(k.unit, k.subprogram)
	}
}

// find looks for the code of a function.
func (l *lineInfo) find(f *function) found {
	for _, u := range l.unitsOf(f) {
		if !l.budget.Step(1) {
			break
		}
		if s := l.load(u).subprogram(f); s != nil {
			s.file, s.line = l.declared(u, s)
			return found{u, s}
		}
	}
	return found{}
}

// open finds the units.
func (l *lineInfo) open() {
	l.data = debuginfo.New(l.sections, l.budget)
	for _, in := range l.data.Units() {
		if !in.IsCode {
			continue
		}
		u := &unit{Unit: in}
		if !in.Located {
			l.silent = append(l.silent, u)
		}
		for _, r := range l.unitRanges(in) {
			l.spans = append(l.spans, span{r.Low, r.High, u})
		}
	}
	slices.SortFunc(l.spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
}

func (l *lineInfo) unitRanges(u *debuginfo.Unit) []debuginfo.Range {
	root, ok := l.data.Root(u)
	if !ok {
		return nil
	}
	return l.ranges(u, root)
}

// ranges returns the ranges of an entry, without code that the linker has dropped:
// wasm-ld moves it to address 0, where no code is, or to the end of the address space. It
// returns nothing if the budget has no room for them.
func (l *lineInfo) ranges(u *debuginfo.Unit, e *debuginfo.Entry) []debuginfo.Range {
	const spanBytes = 48
	all := slices.DeleteFunc(l.data.AppendRanges(nil, u, e), func(r debuginfo.Range) bool {
		return r.Low == 0 || r.Low >= r.High || r.High > l.code
	})
	if !l.budget.Keep(spanBytes * len(all)) {
		return nil
	}
	return all
}

// unitsOf returns the units that may have the code of a function: the unit with the last
// span that begins before the function ends, or all units that do not say where their
// code is.
func (l *lineInfo) unitsOf(f *function) []*unit {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].low >= uint64(f.end) })
	if i > 0 && l.spans[i-1].high > uint64(f.begin) {
		return []*unit{l.spans[i-1].unit}
	}
	return l.silent
}

// rows hold a unit's line table by address, without rows of dropped code and rows without
// a line.
type rows []row

// row gives a line to the addresses from its own up to the next row's.
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
	c.beginSequence()
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

func (c *rowCollector) beginSequence() { c.sequence, c.low = len(c.rows), math.MaxUint64 }

// add takes a row that has a line. It drops lines from 2³¹ and files from 2³² on.
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

// end adds the end of a sequence, or drops a sequence without code of the module: an
// empty one, or one that the linker has moved away, see [lineInfo.ranges].
func (c *rowCollector) end(address uint64) {
	if c.low == 0 || c.low >= address || address > c.l.code {
		c.rows = c.rows[:c.sequence]
	} else {
		c.rows = append(c.rows, row{address: uint32(address)})
	}
	c.beginSequence()
}

// at returns the row of an address, from low on, or the zero row. If the compiler gives
// the address no line, that is the last row before it with a line, as in LLVM's
// symbolizer with --skip-line-zero.
func (t rows) at(low, address uint64) row {
	i := sort.Search(len(t), func(i int) bool { return uint64(t[i].address) > address })
	if i == 0 || uint64(t[i-1].address) < low || t[i-1].line == 0 {
		return row{}
	}
	return t[i-1]
}

// firstIn returns the first row of a range that has a line, or the zero row.
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
