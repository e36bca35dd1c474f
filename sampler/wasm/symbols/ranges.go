package symbols

import (
	"debug/dwarf"
	"fmt"
	"math"
	"slices"
)

// ranges returns where the code of an entry is, but for what the linker has dropped:
// wasm-ld moves that to address 0, where no code is, or to the end of the address space.
// Lists of ranges are read here, and not by debug/dwarf, since many entries may name one
// long list that says nothing.
func (l *lineInfo) ranges(e *dwarf.Entry, u *unit) [][2]uint64 {
	all := append(oneRange(e), l.rangeList(e, u)...)
	return slices.DeleteFunc(all, func(r [2]uint64) bool {
		return r[0] == 0 || r[0] >= r[1] || r[1] > l.code
	})
}

// oneRange returns that of an entry in one piece.
func oneRange(e *dwarf.Entry) [][2]uint64 {
	low, ok := e.Val(dwarf.AttrLowpc).(uint64)
	if !ok {
		return nil
	}
	switch high := e.Val(dwarf.AttrHighpc).(type) {
	case uint64: // an address
		return [][2]uint64{{low, high}}
	case int64: // bytes
		return [][2]uint64{{low, low + uint64(high)}}
	}
	return nil
}

// rangeList returns the ranges of an entry in pieces.
func (l *lineInfo) rangeList(e *dwarf.Entry, u *unit) [][2]uint64 {
	const rangeBytes = 16
	var offset uint64
	switch v := e.Val(dwarf.AttrRanges).(type) {
	case int64: // in the section
		offset = uint64(v)
	case uint64: // which debug/dwarf has looked up by its index
		offset = v
	default:
		return nil
	}
	section, next := l.sections["ranges"], (*rangeList).next
	if u.version >= 5 {
		section, next = l.sections["rnglists"], (*rangeList).next5
	}
	r := rangeList{decoder: decoder{data: from(section, offset)}, unit: u, base: u.base, addresses: l.sections["addr"]}
	for !r.empty() && l.meter.spend(rangeBytes) && next(&r) {
	}
	return r.ranges
}

// rangeList is a list that is read.
type rangeList struct {
	decoder
	*unit
	base      uint64 // of ranges that are relative
	addresses []byte // the content of ".debug_addr"
	ranges    [][2]uint64
}

// next reads one of versions 2 to 4 (DWARF 4, section 2.17.3), and reports whether it
// was not the end of the list.
func (r *rangeList) next() bool {
	low, high := r.address(&r.decoder), r.address(&r.decoder)
	switch {
	case low == 0 && high == 0:
		return false
	case low == math.MaxUint64 || r.addressSize == 4 && low == math.MaxUint32:
		r.base = high
	default:
		r.add(r.base+low, r.base+high)
	}
	return true
}

// next5 reads one of version 5 (sections 2.17.3 and 7.25).
func (r *rangeList) next5() bool {
	const (
		endOfList, baseAddressX, startXEndX, startXLength = 0, 1, 2, 3
		offsetPair, baseAddress, startEnd, startLength    = 4, 5, 6, 7
	)
	switch kind := r.byte(); kind {
	case endOfList:
		return false
	case baseAddressX:
		r.base = r.indexed()
	case startXEndX:
		r.add(r.indexed(), r.indexed())
	case startXLength:
		start := r.indexed()
		r.add(start, start+r.uleb())
	case offsetPair:
		r.add(r.base+r.uleb(), r.base+r.uleb())
	case baseAddress:
		r.base = r.address(&r.decoder)
	case startEnd:
		r.add(r.address(&r.decoder), r.address(&r.decoder))
	case startLength:
		start := r.address(&r.decoder)
		r.add(start, start+r.uleb())
	default:
		r.fail(fmt.Errorf("a range of kind %d", kind))
	}
	return true
}

func (r *rangeList) add(low, high uint64) { r.ranges = append(r.ranges, [2]uint64{low, high}) }

// address reads one of the unit's size: of memories of 32 bits and of 64.
func (r *rangeList) address(d *decoder) uint64 {
	if r.addressSize == 8 {
		return d.u64()
	}
	return uint64(d.u32())
}

// indexed reads the index of an address, and looks that up.
func (r *rangeList) indexed() uint64 {
	at := r.addressBase + r.uleb()*uint64(r.addressSize)
	return r.address(&decoder{data: from(r.addresses, at)})
}
