package debuginfo

import (
	"github.com/ccmapd/ccmapd/internal/cursor"
)

// LineTable is a line number program of ".debug_line" (DWARF 5, section 6.2).
type LineTable struct {
	lineHeader
	data    *Data
	program []byte
	files   []lineFile // by number; versions 2 to 4 have none of number 0
	dirs    [][]byte
}

// lineHeader describes the program.
type lineHeader struct {
	version      uint16
	is64         bool
	minLength    uint64 // of an instruction
	lineBase     int64
	lineRange    uint64 // not 0
	opcodeBase   byte   // not 0
	operandCount []byte // by standard opcode, from 1
}

// Row says that the addresses from its own up to the next row's are on a line.
type Row struct {
	Address uint64
	File    uint64 // its number
	Line    int64  // from 1; else it is no line
	Column  uint64 // from 1; 0: unknown
	End     bool   // the row ends a sequence, and is on no line
}

// Lines returns the line table of a unit, and false where it has none or a malformed one.
func (d *Data) Lines(u *Unit) (*LineTable, bool) {
	t, ok := d.lines[u.lineOffset]
	if !ok {
		t = d.readLines(u)
		d.lines[u.lineOffset] = t
	}
	return t, t != nil
}

func (d *Data) readLines(u *Unit) *LineTable {
	section := d.sections["line"]
	if u.lineOffset < 0 || u.lineOffset >= int64(len(section)) {
		return nil
	}
	c := cursor.Cursor{Data: section[u.lineOffset:]}
	length, is64 := unitLength(&c)
	c = cursor.Cursor{Data: c.Bytes(length), Err: c.Err}
	t := &LineTable{lineHeader: lineHeader{version: c.U16(), is64: is64}, data: d}
	if t.version < 2 || t.version > 5 {
		return nil
	}
	if t.version == 5 {
		c.Byte() // size of an address
		c.Byte() // size of a segment selector
	}
	h := cursor.Cursor{Data: c.Bytes(readOffset(&c, is64)), Err: c.Err}
	t.readHeader(&h)
	if t.version == 5 {
		t.readFiles5(&h)
	} else {
		t.readFiles(&h)
	}
	if h.Err != nil || t.lineRange == 0 || t.opcodeBase == 0 {
		return nil
	}
	t.program = c.Data
	return t
}

func (t *LineTable) readHeader(c *cursor.Cursor) {
	t.minLength = uint64(c.Byte())
	if t.version >= 4 {
		c.Byte() // operations in one instruction: 1 but for VLIW
	}
	c.Byte() // whether a row is a statement by default
	t.lineBase = int64(int8(c.Byte()))
	t.lineRange = uint64(c.Byte())
	if t.opcodeBase = c.Byte(); t.opcodeBase > 0 {
		t.operandCount = c.Bytes(uint64(t.opcodeBase) - 1)
	}
}

// EachRow visits the rows in the program's order, which may not be the addresses' order.
// An error means that the program is malformed, or the budget spent, after these rows.
func (t *LineTable) EachRow(visit func(*Row)) error {
	p := lineProgram{lineHeader: &t.lineHeader, Cursor: cursor.Cursor{Data: t.program}, visit: visit}
	p.reset()
	for !p.Empty() {
		if !t.data.budget.Step(1) {
			return errSpent
		}
		p.step()
	}
	return p.Err
}

// lineProgram is the state machine that a program runs on (section 6.2.2).
type lineProgram struct {
	*lineHeader
	cursor.Cursor
	row   Row
	visit func(*Row)
}

func (p *lineProgram) reset() { p.row = Row{File: 1, Line: 1} }

// Opcodes of section 7.22.
const (
	opExtended, opCopy, opAdvancePC, opAdvanceLine, opSetFile, opSetColumn = 0, 1, 2, 3, 4, 5
	opConstAddPC, opFixedAdvancePC                                         = 8, 9
	opEndSequence, opSetAddress                                            = 1, 2
)

func (p *lineProgram) step() {
	op := p.Byte()
	switch {
	case op >= p.opcodeBase:
		p.advance(uint64(op-p.opcodeBase) / p.lineRange)
		p.row.Line += p.lineBase + int64(uint64(op-p.opcodeBase)%p.lineRange)
		p.visit(&p.row)
	case op == opExtended:
		p.extended(cursor.Cursor{Data: p.Bytes(p.Uleb())})
	case op == opCopy:
		p.visit(&p.row)
	case op == opAdvancePC:
		p.advance(p.Uleb())
	case op == opAdvanceLine:
		p.row.Line += p.Sleb()
	case op == opSetFile:
		p.row.File = p.Uleb()
	case op == opSetColumn:
		p.row.Column = p.Uleb()
	case op == opConstAddPC:
		p.advance(uint64(255-p.opcodeBase) / p.lineRange)
	case op == opFixedAdvancePC:
		p.row.Address += uint64(p.U16())
	default:
		for n := p.operandCount[op-1]; n > 0; n-- {
			p.Uleb()
		}
	}
}

func (p *lineProgram) advance(operations uint64) { p.row.Address += operations * p.minLength }

func (p *lineProgram) extended(c cursor.Cursor) {
	switch op := c.Byte(); {
	case op == opEndSequence:
		p.row.End = true
		p.visit(&p.row)
		p.reset()
	case op == opSetAddress && len(c.Data) == 8:
		p.row.Address = c.U64()
	case op == opSetAddress:
		p.row.Address = uint64(c.U32())
	}
}
