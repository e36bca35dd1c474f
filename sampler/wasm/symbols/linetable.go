package symbols

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// lineTable is a line number program of ".debug_line" (DWARF 5, section 6.2). It is
// read here, and not by debug/dwarf, since that lets a file say how much memory it
// takes, and copies all names of files to get at the lines.
type lineTable struct {
	lineHeader
	program []byte
	files   []lineFile
	dirs    [][]byte
	rows    []row // by address; those of dropped code and on no line are left out
}

// lineHeader is what a header says of the program.
type lineHeader struct {
	version      uint16
	is64         bool
	minLength    uint64 // of an instruction
	lineBase     int64
	lineRange    uint64 // not 0
	opcodeBase   byte
	operandCount []byte // by standard opcode, from 1
}

// row says that the addresses from its own up to the next are on a line.
type row struct {
	address uint32
	file    uint32
	line    int32 // from 1; 0: the end of a sequence
}

// lineTable returns that of a unit, an empty one where it has none or a malformed one.
func (l *lineInfo) lineTable(u *unit) *lineTable {
	if t := l.tables[u.lineOffset]; t != nil {
		return t
	}
	t := &lineTable{}
	if section := l.sections["line"]; u.lineOffset >= 0 && u.lineOffset < int64(len(section)) {
		t = newLineTable(section[u.lineOffset:], l.sections, &l.meter)
	}
	l.tables[u.lineOffset] = t
	return t
}

// newLineTable reads the header.
func newLineTable(section []byte, sections debugSections, m *meter) *lineTable {
	d := &decoder{data: section}
	length, is64 := unitLength(d)
	d = &decoder{data: d.bytes(length), err: d.err}
	t := &lineTable{lineHeader: lineHeader{version: d.u16(), is64: is64}}
	if t.version < 2 || t.version > 5 || !m.spend(len(d.data)) {
		return &lineTable{}
	}
	if t.version == 5 {
		d.byte() // size of an address
		d.byte() // of a segment selector
	}
	header := &decoder{data: d.bytes(sectionOffset(d, is64)), err: d.err}
	t.readHeader(header)
	if t.version == 5 {
		t.readFiles5(header, sections)
	} else {
		t.readFiles(header)
	}
	const fileBytes = 32
	if !m.spend(fileBytes * (len(t.files) + len(t.dirs))) { // tables may overlap
		return &lineTable{}
	}
	if t.lineRange > 0 && t.opcodeBase > 0 && len(t.operandCount) == int(t.opcodeBase)-1 {
		t.program = d.data
	}
	return t
}

func (t *lineTable) readHeader(d *decoder) {
	t.minLength = uint64(d.byte())
	if t.version >= 4 {
		d.byte() // operations of an instruction: 1 but for VLIW
	}
	d.byte() // whether a row is a statement by default
	t.lineBase = int64(int8(d.byte()))
	t.lineRange = uint64(d.byte())
	if t.opcodeBase = d.byte(); t.opcodeBase > 0 {
		t.operandCount = d.bytes(uint64(t.opcodeBase) - 1)
	}
}

// readRows runs the program.
func (t *lineTable) readRows(m *meter, code uint64) {
	const rowBytes = 16
	p := lineProgram{lineHeader: &t.lineHeader, decoder: decoder{data: t.program}, code: code}
	p.reset()
	for !p.empty() && m.spend(rowBytes) {
		p.step()
	}
	t.program, t.rows = nil, append(t.rows, p.rows[:p.sequence]...)
	slices.SortStableFunc(t.rows, compareRows)
}

// compareRows orders by address. A sequence that begins where another ends comes behind it.
func compareRows(a, b row) int {
	return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(min(a.line, 1), min(b.line, 1)))
}

// at returns the row of an address, not below low. Where the compiler says that no line
// is to blame for it, that is the last before it that has a line: as LLVM's symbolizer
// does with --skip-line-zero. It returns the zero row where there is none.
func (t *lineTable) at(low, address uint64) row {
	i := sort.Search(len(t.rows), func(i int) bool { return uint64(t.rows[i].address) > address })
	if i == 0 || uint64(t.rows[i-1].address) < low || t.rows[i-1].line == 0 {
		return row{}
	}
	return t.rows[i-1]
}

// firstIn returns the first row of a range that is on a line, or the zero row.
func (t *lineTable) firstIn(low, high uint64) row {
	i := sort.Search(len(t.rows), func(i int) bool { return uint64(t.rows[i].address) >= low })
	for ; i < len(t.rows) && uint64(t.rows[i].address) < high; i++ {
		if t.rows[i].line > 0 {
			return t.rows[i]
		}
	}
	return row{}
}

func (t *lineTable) covers(low, high uint64) bool { return t.firstIn(low, high).line > 0 }

// lineProgram is the state machine that a program runs on (section 6.2.2).
type lineProgram struct {
	*lineHeader
	decoder
	code     uint64 // bytes of code
	rows     []row
	sequence int    // index of the first row of this sequence
	low      uint64 // lowest address of this sequence

	address uint64
	file    uint64
	line    int64
}

func (p *lineProgram) reset() {
	p.address, p.file, p.line = 0, 1, 1
	p.sequence, p.low = len(p.rows), math.MaxUint64
}

// Opcodes of section 7.22.
const (
	opExtended, opCopy, opAdvancePC, opAdvanceLine, opSetFile = 0, 1, 2, 3, 4
	opConstAddPC, opFixedAdvancePC                            = 8, 9
	opEndSequence, opSetAddress                               = 1, 2
)

func (p *lineProgram) step() {
	op := p.byte()
	switch {
	case op >= p.opcodeBase:
		p.advance(uint64(op-p.opcodeBase) / p.lineRange)
		p.line += p.lineBase + int64(uint64(op-p.opcodeBase)%p.lineRange)
		p.emit()
	case op == opExtended:
		p.extended(decoder{data: p.bytes(p.uleb())})
	case op == opCopy:
		p.emit()
	case op == opAdvancePC:
		p.advance(p.uleb())
	case op == opAdvanceLine:
		p.line += p.sleb()
	case op == opSetFile:
		p.file = p.uleb()
	case op == opConstAddPC:
		p.advance(uint64(255-p.opcodeBase) / p.lineRange)
	case op == opFixedAdvancePC:
		p.address += uint64(p.u16())
	default:
		for n := p.operandCount[op-1]; n > 0; n-- {
			p.uleb()
		}
	}
}

func (p *lineProgram) advance(operations uint64) { p.address += operations * p.minLength }

func (p *lineProgram) extended(d decoder) {
	switch op := d.byte(); {
	case op == opEndSequence:
		p.endSequence()
	case op == opSetAddress && len(d.data) == 8:
		p.address = d.u64()
	case op == opSetAddress:
		p.address = uint64(d.u32())
	}
}

// emit adds a row, if it is on a line. Lines beyond 2³¹ and files beyond 2³² are none.
func (p *lineProgram) emit() {
	p.low = min(p.low, p.address)
	if p.line > 0 && p.line <= math.MaxInt32 && p.file <= math.MaxUint32 {
		p.rows = append(p.rows, row{uint32(min(p.address, math.MaxUint32)), uint32(p.file), int32(p.line)})
	}
}

// endSequence adds the end, or drops a sequence that is no code of the module: an empty
// one, or one that the linker has moved away, see [lineInfo.ranges].
func (p *lineProgram) endSequence() {
	if p.low == 0 || p.low >= p.address || p.address > p.code {
		p.rows = p.rows[:p.sequence]
	} else {
		p.rows = append(p.rows, row{address: uint32(p.address)})
	}
	p.reset()
}
