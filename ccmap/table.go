package ccmap

import (
	"math/bits"
	"unsafe"
)

// table finds the children that do not follow their parent: a node is in it if
// and only if its parent is not the node before it. That is one node in ten or
// twenty.
//
// It is open addressing with linear probing. A slot is tag<<32 | node, 0 if
// empty; the tag is 32 bits of a seeded hash of what the node is. The tag times
// the number of slots, over 2³², is the slot where the search begins. So slots
// are in the order of their tags (but for collisions), any number of slots will
// do, and growing is one pass over both tables in memory order that needs
// neither nodes nor hashes.
type table struct {
	slots []slot
	used  int
	seed  uint64
}

type slot uint64

func newSlot(tag uint32, n NodeID) slot { return slot(tag)<<32 | slot(n) }
func (s slot) tag() uint32              { return uint32(s >> 32) }
func (s slot) node() NodeID             { return NodeID(s) }

const (
	minSlots = 16
	// A table grows by half when it is three quarters full, so it is never
	// less than half full once it has grown.
	maxLoadNum, maxLoadDen = 3, 4
)

// tag hashes what a node is.
func (t *table) tag(n node) uint32 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio
	call := uint64(n.offset)<<32 | uint64(n.method)
	hi, lo := bits.Mul64(call^t.seed, (uint64(n.parent)+1)*odd^bits.ReverseBytes64(t.seed))
	return uint32((hi ^ lo) >> 32)
}

// start returns where the search for a tag begins.
func (t *table) start(tag uint32) int {
	return int(uint64(tag) * uint64(len(t.slots)) >> 32)
}

// find returns the node that is what is looked for, or 0 if the table has none.
func (t *table) find(all *nodes, what node) NodeID {
	tag := t.tag(what)
	for i := t.start(tag); ; i++ {
		if i == len(t.slots) {
			i = 0
		}
		e := t.slots[i]
		if e == 0 {
			return 0
		}
		// A tag is no proof: several nodes may share it.
		if e.tag() == tag && *all.at(e.node()) == what {
			return e.node()
		}
	}
}

// insert adds node n, which is not in the table.
func (t *table) insert(n NodeID, what node) {
	if (t.used+1)*maxLoadDen > len(t.slots)*maxLoadNum {
		t.grow()
	}
	t.place(newSlot(t.tag(what), n))
	t.used++
}

func (t *table) place(e slot) {
	i := t.start(e.tag())
	for t.slots[i] != 0 {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i] = e
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(minSlots, len(old)+len(old)/2))
	for _, e := range old {
		if e != 0 {
			t.place(e)
		}
	}
}

// bytes returns the memory held.
func (t *table) bytes() int64 { return int64(cap(t.slots)) * int64(unsafe.Sizeof(slot(0))) }
