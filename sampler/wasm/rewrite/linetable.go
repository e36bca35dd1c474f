package rewrite

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/sampler/wasm/debuginfo"
)

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

// unknownFile stands for a file that the original lacks: wazero v1.12.0 panics
// over a row without a file.
const unknownFile = "?"

// A lineProgram encodes rows one by one.
type lineProgram struct {
	code  []byte
	names []string // of files, from 1

	// The state machine's registers, as the reader's will be.
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

// step advances line and address and appends the row, by one special opcode if
// the steps are small.
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
