package rewrite

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
)

// The numbers of DWARF 4 that the writer needs.
const (
	dwarfVersion = 4
	addressSize  = 4

	tagCompileUnit       = 0x11
	tagInlinedSubroutine = 0x1d

	attrStmtList   = 0x10
	attrRanges     = 0x55
	attrCallColumn = 0x57
	attrCallFile   = 0x58
	attrCallLine   = 0x59

	formUdata     = 0x0f
	formSecOffset = 0x17
)

// The bits of an abbreviation's code less one: the entry's attributes.
const (
	abbrevInlined  = 1 << iota // else: a unit
	abbrevChildren             // inlined calls only: units always have them
	abbrevRanges
	abbrevSource // line table of a unit, position of an inlined call
	abbreviations
)

// A debugWriter makes sections that hold units. The children of a unit are the inlined
// calls of its code.
type debugWriter struct {
	info, lines, ranges []byte

	unitStart int
	open      bool
}

type inlinedCall struct {
	ranges             [][2]uint32
	children, known    bool
	file, line, column uint32
}

type debugSection struct {
	name    string
	content []byte
}

func (w *debugWriter) sections() []debugSection {
	return []debugSection{
		{".debug_abbrev", abbrevSection()},
		{".debug_info", w.info},
		{".debug_line", w.lines},
		{".debug_ranges", w.ranges},
	}
}

// abbrevSection describes all kinds of entries.
func abbrevSection() (b []byte) {
	for bits := range byte(abbreviations) {
		b = append(b, bits+1)
		if bits&abbrevInlined == 0 {
			b = append(b, tagCompileUnit, 1)
		} else {
			b = append(b, tagInlinedSubroutine, bits&abbrevChildren/abbrevChildren)
		}
		if bits&abbrevRanges != 0 {
			b = append(b, attrRanges, formSecOffset)
		}
		if bits&abbrevSource != 0 {
			b = append(b, sourceAttributes(bits)...)
		}
		b = append(b, 0, 0)
	}
	return append(b, 0)
}

func sourceAttributes(bits byte) []byte {
	if bits&abbrevInlined == 0 {
		return []byte{attrStmtList, formSecOffset}
	}
	return []byte{attrCallFile, formUdata, attrCallLine, formUdata, attrCallColumn, formUdata}
}

// unit begins a unit.
func (w *debugWriter) unit(ranges [][2]uint32, table lineTable) {
	if w.open {
		w.closeUnit()
	}
	w.open, w.unitStart = true, len(w.info)
	w.info = binary.LittleEndian.AppendUint32(w.info, 0) // length, when it ends
	w.info = binary.LittleEndian.AppendUint16(w.info, dwarfVersion)
	w.info = binary.LittleEndian.AppendUint32(w.info, 0) // abbreviations
	w.info = append(w.info, addressSize)
	w.entry(0, ranges, table.ok)
	if table.ok {
		w.info = binary.LittleEndian.AppendUint32(w.info, table.offset)
	}
}

// entry appends an entry's code and ranges.
func (w *debugWriter) entry(bits byte, ranges [][2]uint32, source bool) {
	if len(ranges) > 0 {
		bits |= abbrevRanges
	}
	if source {
		bits |= abbrevSource
	}
	w.info = append(w.info, bits+1)
	if len(ranges) > 0 {
		w.info = binary.LittleEndian.AppendUint32(w.info, uint32(len(w.ranges)))
		for _, r := range ranges {
			w.ranges = binary.LittleEndian.AppendUint32(w.ranges, r[0])
			w.ranges = binary.LittleEndian.AppendUint32(w.ranges, r[1])
		}
		w.ranges = append(w.ranges, 0, 0, 0, 0, 0, 0, 0, 0)
	}
}

// inlined adds an inlined call to the unit. Calls inlined into it follow it instead of
// standing in it: wazero reads them in a row. wazero stops at a call without children, so
// the writer keeps that property.
func (w *debugWriter) inlined(c inlinedCall) {
	if !w.open {
		return
	}
	bits := byte(abbrevInlined)
	if c.children {
		bits |= abbrevChildren
	}
	w.entry(bits, c.ranges, c.known)
	if c.known {
		w.info = appendU32(appendU32(appendU32(w.info, c.file), c.line), c.column)
	}
	if c.children {
		w.info = append(w.info, 0)
	}
}

func (w *debugWriter) closeUnit() {
	w.info = append(w.info, 0)
	binary.LittleEndian.PutUint32(w.info[w.unitStart:], uint32(len(w.info)-w.unitStart-4))
	w.open = false
}

// endUnit ends the last unit. There must be a unit, else wazero takes the module for one
// without DWARF.
func (w *debugWriter) endUnit() {
	if !w.open {
		w.unit(nil, lineTable{})
	}
	w.closeUnit()
}

// lineTable appends a line table and gives its offset.
func (w *debugWriter) lineTable(p *lineProgram) uint32 {
	start := len(w.lines)
	header := []byte{1, 1, 1, lineBase & 0xff, lineRange, opcodeBase} // instruction length, operations, is_stmt
	header = append(header, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)       // operands of the standard opcodes
	header = append(header, 0)                                        // no directories
	for _, name := range p.names {
		header = append(append(header, name...), 0, 0, 0, 0)
	}
	header = append(header, 0)
	w.lines = binary.LittleEndian.AppendUint32(w.lines, uint32(2+4+len(header)+len(p.code)))
	w.lines = binary.LittleEndian.AppendUint16(w.lines, dwarfVersion)
	w.lines = binary.LittleEndian.AppendUint32(w.lines, uint32(len(header)))
	w.lines = append(append(w.lines, header...), p.code...)
	return uint32(start)
}

// The opcodes of line tables, and how special opcodes are laid out.
const (
	lineExtended     = 0
	lineEndSequence  = 1 // extended
	lineSetAddress   = 2 // extended
	lineCopy         = 1
	lineAdvancePC    = 2
	lineAdvanceLine  = 3
	lineSetFile      = 4
	lineSetColumn    = 5
	opcodeBase       = 13
	lineBase         = -5
	lineRange        = 14
	maxSpecialOpcode = 255
)

// unknownFile stands for a file that the original lacks: wazero v1.12.0 panics over a row
// without a file.
const unknownFile = "?"

// A lineProgram encodes rows one by one.
type lineProgram struct {
	code  []byte
	names []string // of files, from 1

	// The registers of the state machine, as its reader will have them.
	started      bool
	address      uint32
	line         int64
	file, column uint32
	unknown      uint32 // the number of unknownFile; 0 before it has one
}

// number returns the number of a file, from 1.
func (p *lineProgram) number(file uint64) uint32 {
	if file-1 < uint64(len(p.names)) {
		return uint32(file)
	}
	if p.unknown == 0 {
		p.names = append(p.names, unknownFile)
		p.unknown = uint32(len(p.names))
	}
	return p.unknown
}

// row appends a row, moved to an address.
func (p *lineProgram) row(row *debuginfo.Row, address uint32, file uint64) {
	if !p.started {
		p.started, p.address, p.line, p.file, p.column = true, 0, 1, 1, 0
	}
	if address < p.address || address-p.address > 1<<20 {
		p.code = append(p.code, lineExtended, 1+addressSize, lineSetAddress)
		p.code = binary.LittleEndian.AppendUint32(p.code, address)
		p.address = address
	}
	if file := p.number(file); file != p.file {
		p.code = appendU32(append(p.code, lineSetFile), file)
		p.file = file
	}
	if column := uint32(row.Column); column != p.column {
		p.code = appendU32(append(p.code, lineSetColumn), column)
		p.column = column
	}
	if row.End {
		p.endSequence(row.Line, address)
		return
	}
	p.step(row.Line, address)
}

// step advances line and address and appends the row, by one special opcode if the steps
// are small.
func (p *lineProgram) step(line int64, address uint32) {
	lines, bytes := line-p.line, int64(address-p.address)
	p.line, p.address = line, address
	if lines < lineBase || lines >= lineBase+lineRange {
		p.code = appendSigned(append(p.code, lineAdvanceLine), lines)
		lines = 0
	}
	if op := lines - lineBase + lineRange*bytes + opcodeBase; op <= maxSpecialOpcode {
		p.code = append(p.code, byte(op))
		return
	}
	p.code = appendU32(append(p.code, lineAdvancePC), uint32(bytes))
	p.code = append(p.code, byte(lines-lineBase+opcodeBase))
}

func (p *lineProgram) endSequence(line int64, address uint32) {
	p.code = appendU32(append(p.code, lineAdvancePC), address-p.address)
	p.code = appendSigned(append(p.code, lineAdvanceLine), line-p.line)
	p.code = append(p.code, lineExtended, 1, lineEndSequence)
	p.started = false
}
