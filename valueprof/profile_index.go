package valueprof

import "math/bits"

// index finds points by their sites: open addressing, linear probing, at most half
// full. A slot is a pointer only. The key is in the point, in the cache line
// that a hit writes to anyway.
type index struct {
	slots []*point // a power of two of them
	used  int
}

const minIndexSlots = 64

func newIndex() index { return index{slots: make([]*point, minIndexSlots)} }

// find returns the point of a site, or nil.
func (x *index) find(s Site) *point {
	mask := uint(len(x.slots) - 1)
	for i := s.hash(); ; i++ {
		pt := x.slots[i&mask]
		if pt == nil || pt.Site == s {
			return pt
		}
	}
}

// insert adds a point whose key is not there yet.
func (x *index) insert(pt *point) {
	if 2*x.used >= len(x.slots) {
		x.grow()
	}
	x.put(pt)
	x.used++
}

func (x *index) put(pt *point) {
	mask := uint(len(x.slots) - 1)
	i := pt.hash() & mask
	for x.slots[i] != nil {
		i = (i + 1) & mask
	}
	x.slots[i] = pt
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]*point, 2*len(old))
	for _, pt := range old {
		if pt != nil {
			x.put(pt)
		}
	}
}

// empty forgets all points.
func (x *index) empty() {
	clear(x.slots)
	x.used = 0
}

// hash folds the product of two words that hold the whole key, each combined
// with a constant of random bits, so that neighbors lie far apart.
func (s Site) hash() uint {
	hi, lo := bits.Mul64(
		(uint64(s.Method)<<32|uint64(s.Offset))^0x9e3779b97f4a7c15,
		uint64(s.Context)^0xd1b54a32d192ed03)
	return uint(hi ^ lo)
}
