package tree

import (
	"cmp"
	"math/bits"
	"unsafe"
)

// Edge is the identity of an edge: a caller calls a callee at a site.
type Edge[M ~uint32] struct {
	Caller M
	Site   uint32
	Callee M
}

// CompareByCallee orders edges by callee, caller and site.
func (e Edge[M]) CompareByCallee(o Edge[M]) int {
	return cmp.Or(cmp.Compare(e.Callee, o.Callee), cmp.Compare(e.Caller, o.Caller), cmp.Compare(e.Site, o.Site))
}

// CompareByCaller orders edges by caller, site and callee.
func (e Edge[M]) CompareByCaller(o Edge[M]) int {
	return cmp.Or(cmp.Compare(e.Caller, o.Caller), cmp.Compare(e.Site, o.Site), cmp.Compare(e.Callee, o.Callee))
}

// start returns where the search for an edge begins.
func (e Edge[M]) start(slots int) int {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio
	hi, lo := bits.Mul64((uint64(e.Site)<<32|uint64(e.Callee))^odd, (uint64(e.Caller)+1)*odd)
	at, _ := bits.Mul64(hi^lo, uint64(slots))
	return int(at)
}

// Edges numbers edges densely, in the order of their arrival. One goroutine owns it. Keys
// is only appended to, so readers may share a prefix of it.
type Edges[M ~uint32] struct {
	Keys  []Edge[M] // by number
	usual []uint32  // by edge: the edge that was last seen below it, or any
	slots []uint32  // number plus 1, by hash; 0: empty
}

// Number returns the number of an edge, the next one if it is new.
func (x *Edges[M]) Number(key Edge[M]) uint32 {
	if 4*(len(x.Keys)+1) > 3*len(x.slots) {
		x.rehash()
	}
	i := x.slot(key)
	if x.slots[i] == 0 {
		x.Keys, x.usual = append(x.Keys, key), append(x.usual, 0)
		x.slots[i] = uint32(len(x.Keys))
	}
	return x.slots[i] - 1
}

// NumberBelow returns the number of an edge that was seen below another. Mostly it is
// the edge that was last seen there, which costs no hashing.
func (x *Edges[M]) NumberBelow(above uint32, key Edge[M]) uint32 {
	if int(above) < len(x.usual) && x.Keys[x.usual[above]] == key {
		return x.usual[above]
	}
	return x.unusual(above, key)
}

// unusual is NumberBelow for an edge that was not the last one seen there.
func (x *Edges[M]) unusual(above uint32, key Edge[M]) uint32 {
	e := x.Number(key)
	x.usual[above] = e
	return e
}

// slot returns the slot that has the edge, or the empty one for it.
func (x *Edges[M]) slot(key Edge[M]) int {
	for i := key.start(len(x.slots)); ; i++ {
		if i == len(x.slots) {
			i = 0
		}
		if e := x.slots[i]; e == 0 || x.Keys[e-1] == key {
			return i
		}
	}
}

func (x *Edges[M]) rehash() {
	const least = 16
	x.slots = make([]uint32, max(least, 2*len(x.slots)))
	for i, key := range x.Keys {
		x.slots[x.slot(key)] = uint32(i + 1)
	}
}

// Bytes returns the memory held.
func (x *Edges[M]) Bytes() int64 {
	return int64(cap(x.Keys))*int64(unsafe.Sizeof(Edge[M]{})) +
		int64(cap(x.usual)+cap(x.slots))*int64(unsafe.Sizeof(uint32(0)))
}
