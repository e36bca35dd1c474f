package ccmap

import (
	"math/bits"
	"unsafe"
)

// NodeID is the index of a node in a map: dense, from 0, which is the root. A
// parent's ID is smaller than its children's. An ID has a meaning only in its map
// and that map's snapshots, and in the map only until the map is pruned.
type NodeID uint32

// Node is one node of the context trie: a method in one context, or a position
// in it.
type Node struct {
	ID     NodeID
	Parent NodeID // the root is its own parent
	// Offset of the call in the parent's method, NoOffset for an outermost
	// frame; in a position node, the position in the parent's method.
	Offset uint32
	Method MethodID // NoMethod in the root and in position nodes
	Self   Counters // of this node alone
}

// IsPosition reports whether n stands for a position of its parent as the
// innermost frame, rather than for a call.
func (n Node) IsPosition() bool { return n.Method == NoMethod && n.ID != 0 }

// node is the identity of a node: its parent calls a method at a position. It is
// also the key of a search.
type node struct {
	offset uint32
	method MethodID
	parent NodeID
}

// rootNode is node 0: no call, no method, its own parent.
var rootNode = node{offset: NoOffset, method: NoMethod, parent: 0}

// Nodes and counters are kept in chunks of chunkLen.
const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
	chunkMask = chunkLen - 1
	maxChunks = 1 << (32 - chunkBits)
)

// nodes is the structure of the trie, 12 bytes a node, in preorder of arrival:
// the nodes that one new stack adds follow each other, so that the common child
// of node v is node v+1.
//
// It is append-only. A copy of the struct is a frozen view: the writer writes
// only at and beyond its len, readers read only below theirs.
//
// There is always room for one node more than len, and it holds zeros.
type nodes struct {
	chunks []*nodeChunk
	len    uint32
}

type nodeChunk [chunkLen]node

// grow adds a chunk.
func (t *nodes) grow() {
	if len(t.chunks) == maxChunks {
		panic("ccmap: more than 2³² context nodes")
	}
	t.chunks = append(t.chunks, new(nodeChunk))
}

// at returns a node, or the unused one at len. No search finds the unused one: its
// parent is the root, whose children all have NoOffset.
func (t *nodes) at(n NodeID) *node { return &t.chunks[n>>chunkBits][n&chunkMask] }

// from returns the nodes from n up to end that lie in the chunk of n.
func (t *nodes) from(n, end NodeID) []node {
	first := n & chunkMask
	return t.chunks[n>>chunkBits][first:min(first+end-n, chunkLen)]
}

// isPosition reports whether n is a position node.
func (t *nodes) isPosition(n NodeID) bool { return n != 0 && t.at(n).method == NoMethod }

// chained reports whether n directly follows its parent. Other nodes are found
// through the table.
func (t *nodes) chained(n NodeID) bool { return t.at(n).parent+1 == n }

// edgeOf returns the edge that leads to a node, which is not the root.
func (t *nodes) edgeOf(id NodeID) edgeKey {
	n := t.at(id)
	return edgeKey{Caller: t.at(n.parent).method, Site: n.offset, Callee: n.method}
}

// bytes returns the memory held.
func (t *nodes) bytes() int64 {
	return int64(len(t.chunks))*int64(unsafe.Sizeof(nodeChunk{})) +
		int64(cap(t.chunks))*int64(unsafe.Sizeof(t.chunks[0]))
}

// table finds the children that do not follow their parent: a node is in it if
// and only if its parent is not the node before it. One node in ten or twenty is.
//
// It is open addressing with linear probing. A slot is tag<<32 | node, 0 if
// empty; the tag is 32 bits of a seeded hash of the node's identity. The search
// begins at slot tag · slots / 2³². So slots are in the order of their tags (but
// for collisions), any number of slots is possible, and growing is one pass over
// both tables in memory order that needs neither nodes nor hashes.
//
// That pass is a pause of the fold. So a table that has grown large is split, by
// the last bits of the tag, into parts that grow one at a time.
type table struct {
	parts []part // 1 or maxParts
	mask  uint32 // the bits of the tag that number its part
	seed  uint64
	used  int // entries
	slots int // of all parts
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
	splitSlots = 1 << 14 // a table this large is split instead of grown
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

// tag hashes the identity of a node. The second product spreads every bit of the
// first to the low bits of the tag, which number the parts. Without it the low bits
// of all call sites of one parent would change in step.
func (t *table) tag(n node) uint32 {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio
	call := uint64(n.offset)<<32 | uint64(n.method)
	hi, lo := bits.Mul64(call^t.seed, (uint64(n.parent)+1)*odd^bits.ReverseBytes64(t.seed))
	return uint32((hi ^ lo) * odd >> 32)
}

func (t *table) part(tag uint32) *part { return &t.parts[tag&t.mask] }

// find returns the node with that identity, or 0 if the table has none.
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

// split divides the single part into many, with half as much room again. Tags may
// fall unevenly: a part that gets more than its share grows at once.
func (t *table) split() {
	old := t.parts[0].slots
	t.divide(len(old) + len(old)/2)
	for _, e := range old {
		if e != 0 {
			t.place(e)
		}
	}
}

// place puts an entry in its part, and grows the part if it is full.
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
