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
//
// That pass is a pause of the fold. So a table that has grown large is split, by
// the last bits of the tag, into parts that grow one at a time.
type table struct {
	parts []part // 1 or maxParts
	mask  uint32 // of the tag's bits that are the number of its part
	seed  uint64
	used  int // entries
	slots int // all parts' room
}

type part struct {
	slots []slot
	used  int
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

	maxParts   = 1 << 6
	splitSlots = 1 << 14 // at which a table is split instead of grown
)

// reset empties the table and makes room for a number of nodes.
func (t *table) reset(nodes int) {
	t.used = 0
	slots := minSlots + nodes*3/2
	if slots <= splitSlots {
		t.parts, t.mask, t.slots = []part{newPart(slots)}, 0, slots
	} else {
		t.divide(slots)
	}
}

// divide makes the table maxParts empty parts.
func (t *table) divide(slots int) {
	each := slots/maxParts + 1
	t.parts, t.mask, t.slots = make([]part, maxParts), maxParts-1, maxParts*each
	for i := range t.parts {
		t.parts[i] = newPart(each)
	}
}

func newPart(slots int) part { return part{slots: make([]slot, slots)} }

// tag hashes what a node is. The second product spreads every bit of the first to
// the low bits of the tag, which number the parts: in the first, those of the call
// sites of one parent go in step.
func (t *table) tag(n node) uint32 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio
	call := uint64(n.offset)<<32 | uint64(n.method)
	hi, lo := bits.Mul64(call^t.seed, (uint64(n.parent)+1)*odd^bits.ReverseBytes64(t.seed))
	return uint32((hi ^ lo) * odd >> 32)
}

func (t *table) part(tag uint32) *part { return &t.parts[tag&t.mask] }

// find returns the node that is what is looked for, or 0 if the table has none.
func (t *table) find(all *nodes, what node) NodeID {
	tag := t.tag(what)
	p := t.part(tag)
	for i := p.start(tag); ; i++ {
		if i == len(p.slots) {
			i = 0
		}
		e := p.slots[i]
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
	e := newSlot(t.tag(what), n)
	if p := &t.parts[0]; len(t.parts) == 1 && len(p.slots) >= splitSlots && p.full() {
		t.split()
	}
	t.place(e)
	t.used++
}

// split makes the one part many, with half as much room again. Tags may fall
// unevenly: a part that is given more than its share grows at once.
func (t *table) split() {
	old := t.parts[0].slots
	t.divide(len(old) + len(old)/2)
	for _, e := range old {
		if e != 0 {
			t.place(e)
		}
	}
}

// place puts an entry in its part, which it grows if that is full.
func (t *table) place(e slot) {
	p := t.part(e.tag())
	if p.full() {
		t.slots -= len(p.slots)
		p.grow()
		t.slots += len(p.slots)
	}
	p.place(e)
}

// bytes returns the memory held.
func (t *table) bytes() int64 {
	return int64(t.slots)*int64(unsafe.Sizeof(slot(0))) + int64(len(t.parts))*int64(unsafe.Sizeof(part{}))
}

// start returns where the search for a tag begins.
func (p *part) start(tag uint32) int {
	return int(uint64(tag) * uint64(len(p.slots)) >> 32)
}

// full reports whether one more entry is too many.
func (p *part) full() bool { return (p.used+1)*maxLoadDen > len(p.slots)*maxLoadNum }

func (p *part) place(e slot) {
	i := p.start(e.tag())
	for p.slots[i] != 0 {
		if i++; i == len(p.slots) {
			i = 0
		}
	}
	p.slots[i] = e
	p.used++
}

func (p *part) grow() {
	old := p.slots
	p.slots, p.used = make([]slot, len(old)+len(old)/2), 0
	for _, e := range old {
		if e != 0 {
			p.place(e)
		}
	}
}
