package rewrite

import (
	"debug/dwarf"
	"errors"
	"io"
	"strings"
)

// wazero prints the source lines of a trap's frames from DWARF, and it keeps
// the offsets that its stack iterator gives only for modules that have DWARF
// (v1.12.0, wazevo/engine.go). So every rewritten module gets sections of its
// own in place of the original's: of these, they hold what wazero reads
// (wasmdebug/dwarf.go), the ranges of units and inlined calls and the line
// tables, with all addresses moved to where the code is now.

func isDebug(section string) bool { return strings.HasPrefix(section, ".debug_") }

// writeDebug appends the debug sections to the tail.
func (a *assembly) writeDebug() {
	w := debugWriter{}
	if d := a.readDebug(); d != nil {
		f := newForward(a.out.spans)
		r := debugReader{data: d, forward: f, writer: &w, budget: len(a.module.data)}
		if !r.read() {
			w = debugWriter{}
		}
	}
	w.endUnit()
	for _, s := range w.sections() {
		if len(s.content) == 0 {
			continue // wazero v1.12.0 takes an empty section at the end for a cut one
		}
		a.tail = appendBytes(append(a.tail, sectionCustom), append(appendName(nil, s.name), s.content...))
	}
}

// readDebug opens the original's DWARF exactly as wazero does; nil if wazero
// would do without.
func (a *assembly) readDebug() *dwarf.Data {
	section := map[string][]byte{}
	for _, c := range a.module.customs {
		if isDebug(c.name) {
			section[c.name] = a.module.data[c.inside.start:c.inside.end]
		}
	}
	if len(section) == 0 {
		return nil
	}
	d, err := dwarf.New(section[".debug_abbrev"], nil, nil, section[".debug_info"],
		section[".debug_line"], nil, section[".debug_ranges"], section[".debug_str"])
	if err != nil {
		return nil
	}
	return d
}

// A debugReader goes through the entries in wazero's order and hands the ones
// that it looks at to the writer.
type debugReader struct {
	data    *dwarf.Data
	forward forward
	writer  *debugWriter
	budget  int // line rows and ranges that may still be written
	tables  map[int64]lineTable
	files   int64 // what the unit's file indices are shifted by
}

// lineTable is a line table that has been written.
type lineTable struct {
	offset uint32
	files  int64 // what file indices are shifted by
	ok     bool
}

// read is false if the tables expand to more than any compiler makes of them:
// hostile ones refer to the same bytes again and again.
func (r *debugReader) read() bool {
	r.tables = map[int64]lineTable{}
	entries := r.data.Reader()
	for r.budget > 0 {
		e, err := entries.Next()
		if err != nil || e == nil {
			return true
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			r.unit(e)
		case dwarf.TagInlinedSubroutine:
			r.inlined(e)
		}
	}
	return false
}

// ranges are an entry's ranges, moved. Those that wazero ignores, because a
// linker has removed their code, are left out.
func (r *debugReader) ranges(e *dwarf.Entry) (moved [][2]uint32) {
	ranges, err := r.data.Ranges(e)
	if err != nil {
		return nil
	}
	r.budget -= len(ranges)
	for _, pcs := range ranges {
		if isTombstone(pcs[0]) || isTombstone(pcs[1]) || pcs[0] >= pcs[1] || pcs[1] >= tombstones {
			continue
		}
		moved = append(moved, [2]uint32{r.forward.address(uint32(pcs[0])), r.forward.address(uint32(pcs[1]))})
	}
	return moved
}

// tombstones are the addresses from which on linkers mark removed code.
const tombstones = 1<<32 - 2

func isTombstone(address uint64) bool {
	low := int32(address)
	return low == 0 || low == -1 || low == -2
}

func (r *debugReader) unit(e *dwarf.Entry) {
	ranges := r.ranges(e)
	table := r.lineTable(e)
	r.files = table.files
	r.writer.unit(ranges, table)
}

func (r *debugReader) inlined(e *dwarf.Entry) {
	ranges := r.ranges(e)
	if len(ranges) == 0 {
		return
	}
	file, known := e.Val(dwarf.AttrCallFile).(int64)
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	column, _ := e.Val(dwarf.AttrCallColumn).(int64)
	r.writer.inlined(inlinedCall{
		ranges: ranges, children: e.Children, known: known && file >= 0,
		file: uint32(file + r.files), line: uint32(line), column: uint32(column),
	})
}

// lineTable writes a unit's line table, once if several units share it. It is
// not ok where wazero finds none or an error.
func (r *debugReader) lineTable(unit *dwarf.Entry) lineTable {
	at, _ := unit.Val(dwarf.AttrStmtList).(int64)
	if t, ok := r.tables[at]; ok {
		return t
	}
	var t lineTable
	if lines, err := r.data.LineReader(unit); err == nil && lines != nil {
		t = r.writeLines(lines)
	}
	r.tables[at] = t
	return t
}

func (r *debugReader) writeLines(lines *dwarf.LineReader) lineTable {
	p := lineProgram{index: map[*dwarf.LineFile]uint32{}}
	files := lines.Files()
	t := lineTable{ok: true}
	if len(files) > 0 && files[0] != nil {
		t.files = 1 // DWARF 5 counts files from 0
	}
	var row dwarf.LineEntry
	for {
		err := lines.Next(&row)
		if errors.Is(err, io.EOF) {
			break
		}
		if r.budget--; err != nil || r.budget < 0 {
			return lineTable{files: t.files}
		}
		p.setFiles(lines.Files(), t.files)
		row.Address = uint64(r.forward.address(uint32(min(row.Address, 1<<32-1))))
		p.row(&row)
	}
	p.setFiles(lines.Files(), t.files)
	t.offset = r.writer.lineTable(&p)
	return t
}
