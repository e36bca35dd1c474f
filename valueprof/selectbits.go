package valueprof

import "math/bits"

// maxBits bounds the index of selected bits to 32 KiB. Up to 16 values never
// need more; of more values, one that would is counted as other.
const maxBits = 15

// selectBits chooses bits that tell the values held apart, and makes room for
// their positions.
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

// separatingBits returns a mask of bits that tell the values apart, which must
// be distinct: of N+1 values at most N, because each bit taken splits a group at
// least. It takes the bit that tells the most pairs apart first, which comes close
// to the fewest: 3.4 bits for 8 heap pointers.
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

// A partition is up to 64 values in groups of those not told apart yet. A set of
// values is a word of bits, by their indices.
type partition struct {
	having [64]uint64              // for each bit, the set of values that have it
	groups [MaxCapacity + 1]uint64 // sets, n of them in use
	n      int
}

// transpose fills having, and returns the bits in which values differ: only for
// these is it right.
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

// bestBit returns the one of some bits that tells the most pairs apart.
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

// pairs returns how many pairs of one group a bit tells apart.
func (p *partition) pairs(bit int) int {
	set, n := p.having[bit&63], 0
	for _, group := range p.groups[:p.n] {
		n += bits.OnesCount64(group&set) * bits.OnesCount64(group&^set)
	}
	return n
}

// split parts the groups by a bit.
func (p *partition) split(bit int) {
	for i := range p.n {
		if in := p.groups[i] & p.having[bit]; in != 0 && in != p.groups[i] {
			p.groups[i] ^= in
			p.groups[p.n] = in
			p.n++
		}
	}
}
