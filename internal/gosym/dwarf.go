package gosym

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
)

// structWalk looks through debug information for the fields of structs. Package
// debug/dwarf is not for files that may be hostile: an abbreviation that ends within
// a number keeps it for ever. Here every entry takes from the budget.
//
// Sources: DWARF 4 and 5, chapters 7.5 and 7.5.6. Go's linker writes version 4 up to
// Go 1.24 and 5 from then on, with names in place.
type structWalk struct {
	*budget
	abbrevs []byte                       // section
	fields  map[string]map[string]uint64 // by struct: offsets by name; nil until it was met
	missing int

	table  map[uint64]abbreviation // of the unit
	offset uint64                  // of table in abbrevs
}

// abbreviation is the form of entries.
type abbreviation struct {
	tag      uint64
	children bool
	attrs    []attribute
}

type attribute struct {
	name, form uint64
	constant   uint64 // of formImplicit
}

// Numbers of DWARF.
const (
	tagMember, tagStruct = 0x0d, 0x13
	attrName, attrOffset = 0x03, 0x38
	opPlusConstant       = 0x23
	formImplicit         = 0x21
	unitTypes            = 7 // of version 5
)

// dwarfUnit is the head of a unit.
type dwarfUnit struct {
	cursor
	wide    bool // offsets have 8 bytes
	version uint16
	address int // bytes of an address
}

// walk looks through the units of .debug_info.
func (w *structWalk) walk(info []byte) error {
	for rest := (cursor{b: info}); w.missing > 0 && len(rest.b) > 0; {
		u, ok := w.unit(&rest)
		if !ok {
			return fmt.Errorf("debug information: %w", errCorrupt)
		}
		if err := w.entries(u); err != nil {
			return err
		}
	}
	return nil
}

// unit cuts the next unit off and reads its head.
func (w *structWalk) unit(rest *cursor) (u dwarfUnit, ok bool) {
	size := rest.number(4)
	if u.wide = size == 1<<32-1; u.wide {
		size = rest.number(8)
	}
	u.b = rest.take(size)
	u.version = uint16(u.number(2))
	var abbrevs uint64
	if u.version >= 5 {
		kind := u.number(1)
		u.address = int(u.number(1))
		abbrevs = u.number(u.offsetSize())
		u.take([unitTypes]uint64{2: 8 + uint64(u.offsetSize()), 4: 8, 5: 8, 6: 8 + uint64(u.offsetSize())}[min(kind, unitTypes-1)])
	} else {
		abbrevs = u.number(u.offsetSize())
		u.address = int(u.number(1))
	}
	if rest.bad || u.bad || u.address > 8 || u.version < 2 || u.version > 5 {
		return u, false
	}
	return u, w.abbreviate(abbrevs)
}

func (u *dwarfUnit) offsetSize() int {
	if u.wide {
		return 8
	}
	return 4
}

// abbreviate reads the table of abbreviations at an offset. Units of Go share one.
func (w *structWalk) abbreviate(off uint64) bool {
	if w.table != nil && w.offset == off {
		return true
	}
	w.table, w.offset = make(map[uint64]abbreviation), off
	c := cursor{b: w.abbrevs}
	c.take(off)
	for code := c.uleb(); code != 0; code = c.uleb() {
		a := abbreviation{tag: c.uleb(), children: c.number(1) != 0}
		for {
			attr := attribute{name: c.uleb(), form: c.uleb()}
			if attr.form == formImplicit {
				attr.constant = c.uleb()
			}
			if attr == (attribute{}) || c.bad {
				break
			}
			const size = 48 // with the waste of a growing slice
			if w.work(1) != nil || w.holding(size) != nil {
				return false
			}
			a.attrs = append(a.attrs, attr)
		}
		const size = 128 // with its share of the map
		if c.bad || w.work(1) != nil || w.holding(size) != nil {
			return false
		}
		w.table[code] = a
	}
	return !c.bad
}

// entries looks through the entries of a unit. The fields of a struct follow it, one
// level below it.
func (w *structWalk) entries(u dwarfUnit) error {
	var fields map[string]uint64 // of the struct that the walk is in
	level, inside := 0, 0
	for (w.missing > 0 || fields != nil) && len(u.b) > 0 {
		code := u.uleb()
		if code == 0 {
			if level--; level < inside {
				fields = nil
			}
			if err := w.work(1); err != nil {
				return err
			}
			continue
		}
		a, ok := w.table[code]
		if !ok {
			return fmt.Errorf("debug information without form %d: %w", code, errCorrupt)
		}
		name, offset := u.entry(a)
		if err := w.work(1 + len(a.attrs)); err != nil || u.bad {
			return cmp.Or(err, errCorrupt)
		}
		known, wanted := w.fields[string(name)]
		switch {
		case a.tag == tagStruct && wanted && known == nil && a.children:
			fields, inside = make(map[string]uint64), level+1
			w.fields[string(name)] = fields
			w.missing--
		case a.tag == tagMember && fields != nil && level == inside && len(name) < maxAlias:
			if err := w.holding(maxAlias); err != nil {
				return err
			}
			fields[string(name)] = offset
		}
		if a.children {
			level++
		}
	}
	return nil
}

// entry reads an entry, and returns its name and offset if it has them.
func (u *dwarfUnit) entry(a abbreviation) (name []byte, offset uint64) {
	for _, attr := range a.attrs {
		n, text := u.value(attr)
		switch attr.name {
		case attrName:
			name = text
		case attrOffset:
			if len(text) > 0 && text[0] == opPlusConstant { // an expression
				n, _ = binary.Uvarint(text[1:])
			}
			offset = n
		}
	}
	return name, offset
}

// fixedForms are the forms whose values have one size, bytes.
var fixedForms = map[uint64]int{
	0x05: 2, 0x06: 4, 0x07: 8, 0x0b: 1, 0x0c: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x19: 0,
	0x1c: 4, 0x20: 8, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2a: 2, 0x2b: 3, 0x2c: 4,
}

// value reads the value of an attribute: a number, or a string or block.
func (u *dwarfUnit) value(a attribute) (n uint64, text []byte) {
	if size, ok := fixedForms[a.form]; ok {
		return u.number(size), nil
	}
	switch a.form {
	case 0x01: // addr
		u.take(uint64(u.address))
	case 0x03: // block2
		text = u.take(u.number(2))
	case 0x04: // block4
		text = u.take(u.number(4))
	case 0x08: // string
		text = u.terminated()
	case 0x09, 0x18: // block, exprloc
		text = u.take(u.uleb())
	case 0x0a: // block1
		text = u.take(u.number(1))
	case 0x0d, 0x0f, 0x15, 0x1a, 0x1b, 0x22, 0x23: // sdata, udata, ref_udata, and indices
		n = u.uleb()
	case 0x0e, 0x17, 0x1d, 0x1f: // offsets in other sections
		n = u.number(u.offsetSize())
	case 0x10: // ref_addr
		if u.version == 2 {
			u.take(uint64(u.address))
		} else {
			n = u.number(u.offsetSize())
		}
	case 0x1e: // data16
		u.take(16)
	case formImplicit:
		n = a.constant
	default: // among them indirect, which Go does not use
		u.bad = true
	}
	return n, text
}

// cursor reads b from its beginning. Beyond its end it gives zeros and sets bad.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// number reads a little-endian number of up to 8 bytes.
func (c *cursor) number(size int) uint64 {
	var b [8]byte
	copy(b[:], c.take(uint64(size)))
	return binary.LittleEndian.Uint64(b[:])
}

// uleb reads a number of variable length. Of a signed one it knows the end only.
func (c *cursor) uleb() uint64 {
	v, n := binary.Uvarint(c.b)
	c.take(uint64(max(n, -n))) // negative: more than 64 bits, as of a signed one
	c.bad = c.bad || n == 0
	return v
}

func (c *cursor) terminated() []byte {
	n := bytes.IndexByte(c.b, 0)
	if n < 0 {
		c.take(uint64(len(c.b)) + 1)
		return nil
	}
	b := c.take(uint64(n))
	c.take(1)
	return b
}
