package valueprof

import (
	"fmt"
	"math/bits"
)

// Site is a call site: a position in a method, in one calling context or in any.
type Site struct {
	Method  uint32 // an id that the caller chooses
	Offset  uint32 // position in the method
	Context uint32 // an id that the caller gives to a calling context; 0: any context
}

// String returns "method+offset", with "@context" if the site has one.
func (s Site) String() string {
	if s.Context == 0 {
		return fmt.Sprintf("%d+%d", s.Method, s.Offset)
	}
	return fmt.Sprintf("%d+%d@%d", s.Method, s.Offset, s.Context)
}

// hash folds the product of two words that hold the whole site, each combined with a
// constant of random bits, so that neighbors lie far apart.
func (s Site) hash() uint {
	hi, lo := bits.Mul64(
		(uint64(s.Method)<<32|uint64(s.Offset))^0x9e3779b97f4a7c15,
		uint64(s.Context)^0xd1b54a32d192ed03)
	return uint(hi ^ lo)
}

// siteIndex finds points by their sites: open addressing, linear probing, at most
// half full. A slot is only a pointer. The key is in the point, in the cache line
// that a hit writes to anyway.
type siteIndex struct {
	slots []*point // a power of two of them
	used  int
}

const minIndexSlots = 64

func newSiteIndex() siteIndex { return siteIndex{slots: make([]*point, minIndexSlots)} }

// find returns the point of a site, or nil.
func (x *siteIndex) find(s Site) *point {
	mask := uint(len(x.slots) - 1)
	for i := s.hash(); ; i++ {
		pt := x.slots[i&mask]
		if pt == nil || pt.Site == s {
			return pt
		}
	}
}

// insert adds a point whose site is not in the index yet.
func (x *siteIndex) insert(pt *point) {
	if 2*x.used >= len(x.slots) {
		x.grow()
	}
	x.put(pt)
	x.used++
}

func (x *siteIndex) put(pt *point) {
	mask := uint(len(x.slots) - 1)
	i := pt.hash() & mask
	for x.slots[i] != nil {
		i = (i + 1) & mask
	}
	x.slots[i] = pt
}

func (x *siteIndex) grow() {
	old := x.slots
	x.slots = make([]*point, 2*len(old))
	for _, pt := range old {
		if pt != nil {
			x.put(pt)
		}
	}
}

// empty forgets all points.
func (x *siteIndex) empty() {
	clear(x.slots)
	x.used = 0
}
