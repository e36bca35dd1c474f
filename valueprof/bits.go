package valueprof

import (
	"math/bits"
	"unsafe"
)

// maxBits bounds the index of selected bits to 32 KiB. Up to 16 values never need
// more bits. In a larger table a value that would need more counts as other.
const maxBits = 15

// selectBits selects bits that tell the values held apart, makes room for their
// positions, and reports whether it could.
func (t *Table) selectBits() bool {
	mask := separatingBits(t.held())
	n := bits.OnesCount64(mask)
	if n > maxBits {
		return false
	}
	t.key = mask
	if n != int(t.bits()) {
		t.makeIndex(n)
	}
	if t.hasList() {
		t.bitList().setBits(t.hash, mask)
	}
	return true
}

// separatingBits returns a mask of bits that tell the values apart. The values must
// be distinct. N+1 values need at most N bits, because each bit splits at least one
// group of values. The bit that tells the most pairs apart comes first. The result is
// close to the fewest bits: 3.4 bits for 8 heap pointers in the mean.
func separatingBits(values []Value) uint64 {
	var p partition
	p.groups[0], p.n = 1<<len(values)-1, 1
	differ := p.transpose(values)
	var mask uint64
	for p.n < len(values) {
		bit := p.bestBit(differ &^ mask)
		mask |= 1 << bit
		p.split(bit)
	}
	return mask
}

// A partition divides up to 64 values into groups that are not told apart yet. A
// set of values is a word that has a bit for the index of each value.
type partition struct {
	having [64]uint64              // for each bit, the set of values that have the bit
	groups [MaxCapacity + 1]uint64 // sets, n of them in use
	n      int
}

// transpose returns the bits that differ between values, and fills having for these
// bits only.
func (p *partition) transpose(values []Value) (differ uint64) {
	for _, v := range values {
		differ |= v.Value ^ values[0].Value
	}
	for i, v := range values {
		for in := v.Value & differ; in != 0; in &= in - 1 {
			p.having[bits.TrailingZeros64(in)] |= 1 << i
		}
	}
	return differ
}

// bestBit returns the bit of a mask that tells the most pairs apart.
func (p *partition) bestBit(among uint64) int {
	best, most := 0, 0
	for ; among != 0; among &= among - 1 {
		bit := bits.TrailingZeros64(among)
		if n := p.pairs(bit); n > most {
			best, most = bit, n
		}
	}
	return best
}

// pairs returns the number of pairs in the same group that a bit tells apart.
func (p *partition) pairs(bit int) int {
	set, n := p.having[bit&63], 0
	for _, group := range p.groups[:p.n] {
		n += bits.OnesCount64(group&set) * bits.OnesCount64(group&^set)
	}
	return n
}

// split divides the groups by a bit.
func (p *partition) split(bit int) {
	for i := range p.n {
		if in := p.groups[i] & p.having[bit]; in != 0 && in != p.groups[i] {
			p.groups[i] ^= in
			p.groups[p.n] = in
			p.n++
		}
	}
}

// gather is PEXT as a loop.
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

// A bitList says where the selected bits of a value are, the lowest first. For
// HashBitPermute it has their indices, for HashShift the distances to shift right.
// The rest of the list is zero, and the bits gathered there are masked away. The list
// of a table follows its index.
type bitList [16]uint8

const bitListBytes = unsafe.Sizeof(bitList{})

// hasList reports whether the hash uses a bitList.
func (t *Table) hasList() bool { return t.hash == HashBitPermute || t.hash == HashShift }

func (t *Table) bitList() *bitList {
	return (*bitList)(unsafe.Add(t.index, uintptr(1)<<(64-t.shift)))
}

// setBits fills the list for a mask.
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

// permuted gathers n bits by a list of indices, four at a time: a loop over single
// bits costs twice as much.
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

// shifted gathers n bits by a list of shifts. Each shift moves a bit to its place.
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
