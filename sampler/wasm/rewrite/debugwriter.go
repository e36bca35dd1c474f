package rewrite

import "encoding/binary"

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

// The bits of an abbreviation's code less one: which attributes an entry has.
const (
	abbrevInlined  = 1 << iota // else: a unit
	abbrevChildren             // inlined calls only: units always have them
	abbrevRanges
	abbrevSource // line table of a unit, position of an inlined call
	abbreviations
)

// A debugWriter makes sections that hold units, each with the inlined calls of
// its code as children.
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

// inlined adds an inlined call to the unit. Calls inlined into it follow it
// instead of standing in it: wazero reads them in a row. It stops at one
// without children, so that is kept.
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

// endUnit ends the last unit. There must be one, else wazero takes the module
// for one without DWARF.
func (w *debugWriter) endUnit() {
	if !w.open {
		w.unit(nil, lineTable{})
	}
	w.closeUnit()
}
