package rewrite

import (
	"cmp"
	"strings"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// wazero prints the source lines of a trap's frames from DWARF, and it keeps the offsets
// that its stack iterator gives only for modules that have DWARF (v1.12.0,
// wazevo/engine.go). So every rewritten module gets debug sections in place of the
// original's. They hold only the parts that wazero reads (wasmdebug/dwarf.go): the ranges
// of units and inlined calls and the line tables, with all addresses moved to the new
// code. wazero has no guard against hostile DWARF, so no byte of the original's reaches
// it.

func isDebug(section string) bool { return strings.HasPrefix(section, debuginfo.Prefix) }

// writeDebug appends the debug sections to the tail.
func (a *assembly) writeDebug(b *debuginfo.Budget) {
	w := debugWriter{}
	r := debugReader{budget: b, forward: newForward(a.out.spans), writer: &w, tables: map[*debuginfo.LineTable]lineTable{}}
	if r.read(a.debugSections()); b.Spent() {
		w = debugWriter{}
	}
	w.endUnit()
	for _, s := range w.sections() {
		if len(s.content) == 0 {
			continue // wazero v1.12.0 takes an empty section at the end for a truncated one
		}
		a.tail = appendBytes(append(a.tail, format.SectionCustom), append(appendName(nil, s.name), s.content...))
	}
}

// debugSections are the sections of the original that wazero reads.
func (a *assembly) debugSections() debuginfo.Sections {
	sections := debuginfo.Sections{}
	for _, c := range a.module.customs {
		switch name := strings.TrimPrefix(c.name, debuginfo.Prefix); name {
		case "abbrev", "info", "line", "ranges", "str":
			if isDebug(c.name) {
				sections[name] = a.module.data[c.inside.start:c.inside.end]
			}
		}
	}
	return sections
}

// A debugReader visits the entries in wazero's order and hands the entries that wazero
// uses to the writer.
type debugReader struct {
	data    *debuginfo.Data
	budget  *debuginfo.Budget
	forward forward
	writer  *debugWriter
	tables  map[*debuginfo.LineTable]lineTable
	ranges  []debuginfo.Range // reused
	table   lineTable         // of the unit
}

// lineTable is a written line table.
type lineTable struct {
	offset uint32
	files  int64 // number of files, which count from 1
	shift  int64 // of the original's file numbers
	ok     bool
}

// read visits the units while the budget lasts: hostile units refer to the same bytes
// again and again.
func (r *debugReader) read(s debuginfo.Sections) {
	r.data = debuginfo.New(s, r.budget)
	for _, u := range r.data.Units() {
		for e := range r.data.Entries(u) {
			switch e.Tag {
			case debuginfo.TagCompileUnit:
				r.unit(u, e)
			case debuginfo.TagInlinedSubroutine:
				r.inlined(u, e)
			}
		}
	}
}

// moved returns an entry's ranges at their new addresses. It leaves out the ranges that
// wazero ignores, because a linker has removed their code.
func (r *debugReader) moved(u *debuginfo.Unit, e *debuginfo.Entry) (moved [][2]uint32) {
	r.ranges = r.data.AppendRanges(r.ranges[:0], u, e)
	for _, pcs := range r.ranges {
		if isTombstone(pcs.Low) || isTombstone(pcs.High) || pcs.Low >= pcs.High || pcs.High >= tombstones {
			continue
		}
		if !r.budget.Keep(rangeBytes) {
			return nil
		}
		moved = append(moved, [2]uint32{r.forward.address(uint32(pcs.Low)), r.forward.address(uint32(pcs.High))})
	}
	return moved
}

// Costs of parts, in bytes of the budget, for the memory here and in wazero.
const (
	rangeBytes = 16
	rowBytes   = 16
)

// tombstones is the first of the addresses that linkers give removed code.
const tombstones = 1<<32 - 2

func isTombstone(address uint64) bool {
	low := int32(address)
	return low == 0 || low == -1 || low == -2
}

func (r *debugReader) unit(u *debuginfo.Unit, e *debuginfo.Entry) {
	r.table = r.lineTable(u)
	r.writer.unit(r.moved(u, e), r.table)
}

func (r *debugReader) inlined(u *debuginfo.Unit, e *debuginfo.Entry) {
	ranges := r.moved(u, e)
	if len(ranges) == 0 {
		return
	}
	file := e.Number(debuginfo.CallFile) + r.table.shift
	r.writer.inlined(inlinedCall{
		ranges: ranges, children: e.Children, known: e.Has(debuginfo.CallFile) && file > 0 && file <= r.table.files,
		file: uint32(file), line: uint32(max(e.Number(debuginfo.CallLine), 0)), column: uint32(max(e.Number(debuginfo.CallColumn), 0)),
	})
}

// lineTable writes a unit's line table, once for all units that share it. It is not ok if
// wazero finds no table or an error.
func (r *debugReader) lineTable(u *debuginfo.Unit) lineTable {
	lines, ok := r.data.Lines(u)
	if !ok {
		return lineTable{}
	}
	t, ok := r.tables[lines]
	if !ok {
		t = r.writeLines(u, lines)
		r.tables[lines] = t
	}
	return t
}

func (r *debugReader) writeLines(u *debuginfo.Unit, lines *debuginfo.LineTable) lineTable {
	p := lineProgram{}
	first, end := lines.Files()
	for i := first; i < end; i++ {
		p.names = append(p.names, cmp.Or(r.data.FileName(u, int64(i)), unknownFile))
	}
	t := lineTable{shift: int64(1 - first)}
	err := lines.EachRow(func(row *debuginfo.Row) {
		if r.budget.Keep(rowBytes) {
			p.row(row, r.forward.address(uint32(min(row.Address, 1<<32-1))), row.File+uint64(t.shift))
		}
	})
	if err != nil || r.budget.Spent() {
		return t
	}
	t.files, t.ok = int64(len(p.names)), true
	t.offset = r.writer.lineTable(&p)
	return t
}
