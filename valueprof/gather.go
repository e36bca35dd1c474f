package valueprof

import (
	"math/bits"
	"unsafe"
)

// gather is PEXT without the instruction.
func gather(v, mask uint64) uint64 {
	var p uint64
	for bit := uint64(1); mask != 0; bit <<= 1 {
		low := mask & -mask
		if v&low != 0 {
			p |= bit
		}
		mask ^= low
	}
	return p
}

// A bitList says where the selected bits of a value are, lowest first: for
// HashBitPermute their indices, for HashShift how far each is to move right.
// Bits beyond those selected are zero, and what they gather is masked away.
// A table keeps it behind its index.
type bitList [16]uint8

const bitListBytes = unsafe.Sizeof(bitList{})

func (t *Table) bitList() *bitList {
	return (*bitList)(unsafe.Add(t.index, uintptr(1)<<(64-t.shift)))
}

// setBits makes the list for a mask.
func (l *bitList) setBits(h Hash, mask uint64) {
	*l = bitList{}
	for i := 0; mask != 0; i++ {
		at := bits.TrailingZeros64(mask)
		mask &= mask - 1
		if h == HashShift {
			at -= i
		}
		l[i] = uint8(at)
	}
}

// permuted gathers the n bits of a list of indices, four at a time: a loop over
// single bits costs twice as much.
func (l *bitList) permuted(v uint64, n uint8) uint64 {
	p := v>>(l[0]&63)&1 | v>>(l[1]&63)&1<<1 | v>>(l[2]&63)&1<<2 | v>>(l[3]&63)&1<<3
	if n > 4 {
		p |= v>>(l[4]&63)&1<<4 | v>>(l[5]&63)&1<<5 | v>>(l[6]&63)&1<<6 | v>>(l[7]&63)&1<<7
	}
	if n > 8 {
		p |= v>>(l[8]&63)&1<<8 | v>>(l[9]&63)&1<<9 | v>>(l[10]&63)&1<<10 | v>>(l[11]&63)&1<<11
	}
	if n > 12 {
		p |= v>>(l[12]&63)&1<<12 | v>>(l[13]&63)&1<<13 | v>>(l[14]&63)&1<<14
	}
	return p & (1<<n - 1)
}

// shifted does so for a list of shifts, which leave each bit in its place.
func (l *bitList) shifted(v uint64, n uint8) uint64 {
	p := v>>(l[0]&63)&1 | v>>(l[1]&63)&2 | v>>(l[2]&63)&4 | v>>(l[3]&63)&8
	if n > 4 {
		p |= v>>(l[4]&63)&0x10 | v>>(l[5]&63)&0x20 | v>>(l[6]&63)&0x40 | v>>(l[7]&63)&0x80
	}
	if n > 8 {
		p |= v>>(l[8]&63)&0x100 | v>>(l[9]&63)&0x200 | v>>(l[10]&63)&0x400 | v>>(l[11]&63)&0x800
	}
	if n > 12 {
		p |= v>>(l[12]&63)&0x1000 | v>>(l[13]&63)&0x2000 | v>>(l[14]&63)&0x4000
	}
	return p & (1<<n - 1)
}
