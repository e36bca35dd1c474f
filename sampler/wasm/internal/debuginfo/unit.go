package debuginfo

import (
	"errors"
	"fmt"
	"sort"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Data is the DWARF of a module. One goroutine may use it at a time.
type Data struct {
	sections      Sections
	budget        *Budget
	units         []*Unit
	abbreviations map[uint64]*abbreviations // by offset
	lines         map[int64]*LineTable      // by offset
}

// New reads the headers of the units, up to the first malformed one, and the first entry
// of each. All reading spends the budget.
func New(s Sections, b *Budget) *Data {
	d := &Data{sections: s, budget: b, abbreviations: map[uint64]*abbreviations{}, lines: map[int64]*LineTable{}}
	d.readUnits()
	return d
}

// Units returns the units in order.
func (d *Data) Units() []*Unit { return d.units }

// UnitAt returns the unit that has the entry at an offset, or nil.
func (d *Data) UnitAt(offset uint64) *Unit {
	i := sort.Search(len(d.units), func(i int) bool { return d.units[i].end > offset })
	if i < len(d.units) && d.units[i].first <= offset {
		return d.units[i]
	}
	return nil
}

// Root returns the first entry of a unit.
func (d *Data) Root(u *Unit) (*Entry, bool) { return d.EntryAt(u, u.first) }

// Unit is a unit of ".debug_info" (DWARF 5, section 7.5.1).
type Unit struct {
	IsCode    bool   // it is a compilation unit
	Located   bool   // it says where its code is
	Directory string // of the compilation; relative paths begin there

	header
	tables     *abbreviations
	base       uint64 // of ranges that are relative
	lineOffset int64  // in ".debug_line"; -1: it has no lines

	// Offsets of its parts of ".debug_addr", ".debug_rnglists" and ".debug_str_offsets".
	addressBase, listBase, stringBase uint64
}

// header stands before the entries of a unit.
type header struct {
	begin         uint64 // of the header itself: references count from here
	first, end    uint64 // of the first entry, and after the last
	version       uint16 // 2 to 5
	is64          bool   // offsets have 64 bits
	addressSize   byte   // bytes
	abbreviations uint64 // offset
}

func (d *Data) readUnits() {
	const unitBytes = 256
	info := d.sections["info"]
	for c := (cursor.Cursor{Data: info}); !c.Empty(); {
		begin := uint64(len(info) - len(c.Data))
		length, is64 := unitLength(&c)
		if length == 0 && c.Err == nil {
			continue
		}
		body := cursor.Cursor{Data: c.Bytes(length), Err: c.Err}
		h := readHeader(&body, is64)
		h.begin, h.end = begin, uint64(len(info)-len(c.Data))
		h.first = h.end - uint64(len(body.Data))
		if body.Err != nil || !d.budget.Keep(unitBytes) {
			return
		}
		d.units = append(d.units, d.newUnit(h))
	}
}

// unitLength reads the length of a unit or a line table, and whether its offsets have 64
// bits.
func unitLength(c *cursor.Cursor) (length uint64, is64 bool) {
	const escape64, reserved = 0xffffffff, 0xfffffff0
	length = uint64(c.U32())
	switch {
	case length == escape64:
		return c.U64(), true
	case length >= reserved:
		c.Fail(errors.New("reserved unit length"))
		return 0, false
	}
	return length, false
}

func readOffset(c *cursor.Cursor, is64 bool) uint64 {
	if is64 {
		return c.U64()
	}
	return uint64(c.U32())
}

func readHeader(c *cursor.Cursor, is64 bool) header {
	const typeUnit, splitType, skeleton, splitCompile = 2, 6, 4, 5
	h := header{is64: is64, version: c.U16()}
	switch h.version {
	case 2, 3, 4:
		h.abbreviations = readOffset(c, is64)
		h.addressSize = c.Byte()
	case 5:
		kind := c.Byte()
		h.addressSize = c.Byte()
		h.abbreviations = readOffset(c, is64)
		switch kind {
		case skeleton, splitCompile:
			c.U64()
		case typeUnit, splitType:
			c.U64()
			readOffset(c, is64)
		}
	default:
		c.Fail(fmt.Errorf("DWARF version %d", h.version))
	}
	return h
}

// newUnit reads the first entry.
func (d *Data) newUnit(h header) *Unit {
	u := &Unit{header: h, lineOffset: -1}
	e, ok := d.Root(u)
	if !ok || e.Tag != TagCompileUnit {
		return u
	}
	base := func(a Attribute) uint64 { return uint64(max(e.Number(a), 0)) }
	u.addressBase, u.listBase, u.stringBase = base(AddrBase), base(RnglistsBase), base(StrOffsetsBase)
	u.IsCode, u.Located = true, e.Has(LowPC) || e.Has(Ranges)
	u.lineOffset = e.Number(StmtList)
	u.base, _ = d.address(u, e.values[LowPC])
	u.Directory = d.text(u, e.values[CompDir])
	return u
}

// address returns the address that a value stands for.
func (d *Data) address(u *Unit, v value) (uint64, bool) {
	switch v.class {
	case classAddress:
		return v.number, true
	case classAddressIndex:
		return u.indexedAddress(d.sections["addr"], v.number)
	}
	return 0, false
}

// indexedAddress looks up an address of the unit in ".debug_addr".
func (u *Unit) indexedAddress(addresses []byte, index uint64) (uint64, bool) {
	c := cursor.Cursor{Data: from(addresses, u.addressBase+index*uint64(u.addressSize))}
	a := u.readAddress(&c)
	return a, c.Err == nil
}

// readAddress reads an address of the unit's size: of a memory of 32 bits, or of 64.
func (u *Unit) readAddress(c *cursor.Cursor) uint64 {
	if u.addressSize == 8 {
		return c.U64()
	}
	return uint64(c.U32())
}

// text returns the text that a value stands for.
func (d *Data) text(u *Unit, v value) string {
	switch v.class {
	case classText:
		return d.name(from(d.sections["info"], v.number))
	case classTextOffset:
		return d.name(from(d.sections["str"], v.number))
	case classLineTextOffset:
		return d.name(from(d.sections["line_str"], v.number))
	case classTextIndex:
		size := uint64(4)
		if u.is64 {
			size = 8
		}
		c := cursor.Cursor{Data: from(d.sections["str_offsets"], u.stringBase+v.number*size)}
		if at := readOffset(&c, u.is64); c.Err == nil {
			return d.name(from(d.sections["str"], at))
		}
	}
	return ""
}
