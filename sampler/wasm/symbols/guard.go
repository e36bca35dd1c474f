package symbols

import (
	"bytes"
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
)

// Package debug/dwarf says of itself that it is not hardened against input of bad
// intent. So what could make it take more than a linear time or memory is refused
// before it sees it, what it reads is metered, and its panics are caught where it is
// called. Line tables and lists of ranges, of which no such guard could be shorter than
// a reader, are read here.

// Bounds of what compilers write, by far.
const (
	maxAttributes = 128     // of an entry
	maxString     = 1 << 20 // bytes, of a name
)

// catch makes an error of a panic of debug/dwarf.
func catch(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("read DWARF: %v", p)
	}
}

// meter bounds the work that is done for a module: bytes that may still be decoded.
type meter struct{ left int64 }

// spend reports whether there is something left.
func (m *meter) spend(n int) bool {
	m.left -= int64(n)
	return m.left >= 0
}

// unitHeader is that of a unit of ".debug_info".
type unitHeader struct {
	first, end  dwarf.Offset // of its first entry and behind its last
	version     uint16       // 2 to 5
	addressSize byte         // bytes
	abbrev      uint64       // offset of its abbreviations
}

// unitHeaders returns the units up to the first that is malformed, and where that
// begins (DWARF 5, section 7.5.1).
func unitHeaders(info []byte) (units []unitHeader, end int) {
	d := &decoder{data: info}
	for !d.empty() {
		begin := len(info) - len(d.data)
		length, is64 := unitLength(d)
		if length == 0 && d.err == nil {
			continue
		}
		body := &decoder{data: d.bytes(length)}
		h := readUnitHeader(body, is64)
		h.end = dwarf.Offset(len(info) - len(d.data))
		h.first = h.end - dwarf.Offset(len(body.data))
		if d.err != nil || body.err != nil || endless(body.data) {
			return units, begin
		}
		units = append(units, h)
	}
	return units, len(info)
}

// endless reports whether entries may end within a LEB128 number, except a short one.
// debug/dwarf reads that to the end, and then stays where it is: it would find one
// entry after the other there.
func endless(entries []byte) bool {
	const maxTail = 16
	tail := entries[max(0, len(entries)-maxTail):]
	return len(tail) == maxTail && !slices.ContainsFunc(tail, func(b byte) bool { return b < 0x80 })
}

// unitLength reads how long a unit is, and whether its offsets have 64 bits.
func unitLength(d *decoder) (length uint64, is64 bool) {
	const escape64, reserved = 0xffffffff, 0xfffffff0
	length = uint64(d.u32())
	switch {
	case length == escape64:
		return d.u64(), true
	case length >= reserved:
		d.fail(errors.New("reserved unit length"))
		return 0, false
	}
	return length, false
}

func sectionOffset(d *decoder, is64 bool) uint64 {
	if is64 {
		return d.u64()
	}
	return uint64(d.u32())
}

// readUnitHeader reads what stands between the length and the first entry.
func readUnitHeader(d *decoder, is64 bool) (h unitHeader) {
	const typeUnit, splitType, skeleton, splitCompile = 2, 6, 4, 5
	switch h.version = d.u16(); h.version {
	case 2, 3, 4:
		h.abbrev = sectionOffset(d, is64)
		h.addressSize = d.byte()
	case 5:
		kind := d.byte()
		h.addressSize = d.byte()
		h.abbrev = sectionOffset(d, is64)
		switch kind {
		case skeleton, splitCompile:
			d.u64()
		case typeUnit, splitType:
			d.u64()
			sectionOffset(d, is64)
		}
	default:
		d.fail(fmt.Errorf("DWARF version %d", h.version))
	}
	return h
}

// checkAbbreviations makes sure that reading the tables of all units takes no longer
// than their section is: no two overlap, and no entry has attributes without number.
func checkAbbreviations(section []byte, units []unitHeader) error {
	offsets := make([]uint64, len(units))
	for i, u := range units {
		offsets[i] = u.abbrev
	}
	slices.Sort(offsets)
	end := uint64(0)
	for _, offset := range slices.Compact(offsets) {
		if offset < end || offset > uint64(len(section)) {
			return errors.New("tables of abbreviations overlap, or lie outside")
		}
		d := &decoder{data: section[offset:]}
		if err := skipAbbreviations(d); err != nil {
			return err
		}
		end = uint64(len(section) - len(d.data))
	}
	return nil
}

// skipAbbreviations skips a table (DWARF 5, section 7.5.3).
func skipAbbreviations(d *decoder) error {
	for d.uleb() != 0 {
		d.uleb() // tag
		d.byte() // whether it has children
		for n := 0; skipAttribute(d); n++ {
			if n == maxAttributes {
				return fmt.Errorf("an entry of more than %d attributes", maxAttributes)
			}
		}
	}
	return d.err
}

// skipAttribute skips one, and reports whether it was not the end of the list.
func skipAttribute(d *decoder) bool {
	const implicitConst = 0x21
	name, form := d.uleb(), d.uleb()
	if form == implicitConst {
		d.sleb()
	}
	return name != 0 || form != 0
}

// checkStrings makes sure that none is so long that copies of it fill the memory.
func checkStrings(section []byte) error {
	for len(section) > 0 {
		n := bytes.IndexByte(section, 0)
		if n < 0 {
			n = len(section)
		}
		if n > maxString {
			return fmt.Errorf("a string of more than %d bytes", maxString)
		}
		section = section[min(n+1, len(section)):]
	}
	return nil
}
