package debuginfo

import (
	"fmt"
	"math"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Range is a range of addresses from Low up to High, in bytes from the beginning of the
// code section's content ("DWARF for WebAssembly").
type Range struct{ Low, High uint64 }

// AppendRanges appends the ranges of an entry's code, also of code that the linker has
// dropped, and ranges that are empty or too large.
func (d *Data) AppendRanges(ranges []Range, u *Unit, e *Entry) []Range {
	if r, ok := d.oneRange(u, e); ok {
		ranges = append(ranges, r)
	}
	list, ok := d.listOf(u, e.values[Ranges])
	if !ok {
		return ranges
	}
	r := rangeList{Cursor: cursor.Cursor{Data: list}, unit: u, base: u.base, addresses: d.sections["addr"], ranges: ranges}
	next := (*rangeList).next
	if u.version >= 5 {
		next = (*rangeList).next5
	}
	for !r.Empty() && d.budget.Step(2) && next(&r) {
	}
	return r.ranges
}

// oneRange returns the range of an entry with one range.
func (d *Data) oneRange(u *Unit, e *Entry) (Range, bool) {
	low, ok := d.address(u, e.values[LowPC])
	if !ok {
		return Range{}, false
	}
	if high := e.values[HighPC]; high.class == classNumber {
		return Range{low, low + high.number}, true
	}
	high, ok := d.address(u, e.values[HighPC])
	return Range{low, high}, ok
}

// listOf returns the list of ranges that a value names.
func (d *Data) listOf(u *Unit, v value) ([]byte, bool) {
	section := d.sections["ranges"]
	if u.version >= 5 {
		section = d.sections["rnglists"]
	}
	switch v.class {
	case classNumber:
		return from(section, v.number), true
	case classListIndex:
		size := uint64(4)
		if u.is64 {
			size = 8
		}
		c := cursor.Cursor{Data: from(section, u.listBase+v.number*size)}
		at := readOffset(&c, u.is64)
		return from(section, u.listBase+at), c.Err == nil
	}
	return nil, false
}

// rangeList is a list being read.
type rangeList struct {
	cursor.Cursor
	unit      *Unit
	base      uint64 // of ranges that are relative
	addresses []byte // the content of ".debug_addr"
	ranges    []Range
}

// next reads an element of versions 2 to 4 (DWARF 4, section 2.17.3), and reports whether
// the list goes on.
func (r *rangeList) next() bool {
	low, high := r.address(), r.address()
	switch {
	case low == 0 && high == 0:
		return false
	case low == math.MaxUint64 || r.unit.addressSize == 4 && low == math.MaxUint32:
		r.base = high
	default:
		r.add(r.base+low, r.base+high)
	}
	return true
}

// next5 reads an element of version 5 (sections 2.17.3 and 7.25).
func (r *rangeList) next5() bool {
	const (
		endOfList, baseAddressX, startXEndX, startXLength = 0, 1, 2, 3
		offsetPair, baseAddress, startEnd, startLength    = 4, 5, 6, 7
	)
	switch kind := r.Byte(); kind {
	case endOfList:
		return false
	case baseAddressX:
		r.base = r.indexed()
	case startXEndX:
		r.add(r.indexed(), r.indexed())
	case startXLength:
		start := r.indexed()
		r.add(start, start+r.Uleb())
	case offsetPair:
		r.add(r.base+r.Uleb(), r.base+r.Uleb())
	case baseAddress:
		r.base = r.address()
	case startEnd:
		r.add(r.address(), r.address())
	case startLength:
		start := r.address()
		r.add(start, start+r.Uleb())
	default:
		r.Fail(fmt.Errorf("a range of kind %d", kind))
	}
	return true
}

// add adds a range, unless the list ended inside it.
func (r *rangeList) add(low, high uint64) {
	if r.Err == nil {
		r.ranges = append(r.ranges, Range{low, high})
	}
}

func (r *rangeList) address() uint64 { return r.unit.readAddress(&r.Cursor) }

// indexed reads the index of an address, and looks up the address.
func (r *rangeList) indexed() uint64 {
	a, _ := r.unit.indexedAddress(r.addresses, r.Uleb())
	return a
}
