package ccmap

import "unsafe"

// NodeID is the index of a node in a map: dense, from 0, which is the root. A
// parent's is smaller than its children's. It means something in its map and
// that map's snapshots only, and in a map only until it is pruned.
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

// node is what a node is: the call of a method by its parent at a position. As
// the key of a search it is what the node is to be.
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

// at returns a node, or the unused one at len. That one is no child that anyone
// looks for: its parent is the root, whose children all have NoOffset.
func (t *nodes) at(n NodeID) *node { return &t.chunks[n>>chunkBits][n&chunkMask] }

// from returns the nodes from n on that lie in one chunk, up to end.
func (t *nodes) from(n, end NodeID) []node {
	first := n & chunkMask
	return t.chunks[n>>chunkBits][first:min(first+end-n, chunkLen)]
}

// isPosition reports whether n is a position node.
func (t *nodes) isPosition(n NodeID) bool { return n != 0 && t.at(n).method == NoMethod }

// chained reports whether n is found as the node after its parent, rather than
// through the table.
func (t *nodes) chained(n NodeID) bool { return t.at(n).parent+1 == n }

// bytes returns the memory held.
func (t *nodes) bytes() int64 {
	return int64(len(t.chunks))*int64(unsafe.Sizeof(nodeChunk{})) +
		int64(cap(t.chunks))*int64(unsafe.Sizeof(t.chunks[0]))
}
