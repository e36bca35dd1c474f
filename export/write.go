package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Write writes the snapshot to w, uncompressed. Equal maps give equal bytes.
//
// XML and JSON are linear in the nodes. Pprof and Folded hold whole stacks:
// they are linear in nodes times depth, in time and in bytes written, not in memory.
func Write(w io.Writer, f Format, s *ccmap.Snapshot) error {
	row, ok := formatTable[f]
	if !ok {
		return fmt.Errorf("write profile: %w: %v", ErrFormat, f)
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	err := row.write(buffered, newCanonical(s, f))
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return fmt.Errorf("write %v: %w", f, err)
	}
	return nil
}

// canonical is a snapshot in the order of its content: equal maps have equal
// canonical forms. It takes time n log n in the nodes and points, 8 bytes a node and as
// many more while it sorts them, and a copy of the points.
type canonical struct {
	snapshot   *ccmap.Snapshot
	recent     *ccmap.Snapshot  // the window; nil without one
	hasEvicted bool             // the counts of pruned nodes are written as well
	points     []ccmap.Point    // that the format has a place for; methods are indices in methods
	methods    []ccmap.Method   // those that stand in a node, a point or were pruned, by name and signature
	ids        []ccmap.MethodID // of the methods
	rank       []int32          // by MethodID: index in methods
	order      []place          // preorder, siblings by offset and method; the root first
}

// place is a node in the order.
type place struct {
	id     ccmap.NodeID
	parent uint32 // index in the order
}

// root is the node above all outermost frames, in every map.
const root ccmap.NodeID = 0

// unused marks a method that stands nowhere.
const unused = -1

// newCanonical returns the canonical form of a snapshot for a format. Not all formats have
// a place for the counts of pruned nodes, and for points.
func newCanonical(s *ccmap.Snapshot, f Format) *canonical {
	c := &canonical{snapshot: s, hasEvicted: f.HasPrunedTotals() && s.Pruned(), points: pointsFor(s, f)}
	if recent, windowed := s.Recent(); windowed {
		c.recent = recent
	}
	c.rankMethods()
	c.rankPoints()
	c.sortNodes()
	return c
}

// rankMethods sorts the methods in use. Many maps may share Names, which then has methods
// of other maps.
func (c *canonical) rankMethods() {
	names := c.snapshot.Names()
	c.rank = make([]int32, names.Len())
	for i := range c.rank {
		c.rank[i] = unused
	}
	var ids []ccmap.MethodID
	for id := range c.used() {
		if id != ccmap.NoMethod && c.rank[id] == unused {
			c.rank[id] = 0
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b ccmap.MethodID) int {
		x, y := names.At(a), names.At(b)
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Signature, y.Signature))
	})
	for i, id := range ids {
		c.rank[id] = int32(i)
		c.methods = append(c.methods, names.At(id))
	}
	c.ids = ids
}

// used returns the methods of all nodes and points, and of pruned edges and methods; some
// many times, NoMethod among them.
func (c *canonical) used() iter.Seq[ccmap.MethodID] {
	return func(yield func(ccmap.MethodID) bool) {
		for n := range c.snapshot.Nodes() {
			if !yield(n.Method) {
				return
			}
		}
		for i := range c.points {
			for id := range pointMethods(&c.points[i]) {
				if !yield(id) {
					return
				}
			}
		}
		if !c.hasEvicted {
			return
		}
		for e := range c.snapshot.PrunedEdges() {
			if !yield(e.Caller) || !yield(e.Callee) {
				return
			}
		}
		for p := range c.snapshot.PrunedMethods() {
			if !yield(p.Method) {
				return
			}
		}
	}
}

// sortNodes finds the preorder: a stack unfolds the children of each node, sorted.
func (c *canonical) sortNodes() {
	first, next := c.linkChildren()
	c.order = make([]place, 0, c.snapshot.Len())
	var family []sibling
	for open := []place{{id: root}}; len(open) > 0; {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		index := uint32(len(c.order))
		c.order = append(c.order, at)
		family = family[:0]
		for child := first[at.id]; child != root; child = next[child] {
			family = append(family, sibling{id: child})
		}
		if len(family) > 1 {
			c.sortLastFirst(family)
		}
		for _, s := range family {
			open = append(open, place{s.id, index})
		}
	}
}

// linkChildren returns the first child of each node and the next one of each child. After
// the last one stands the root.
func (c *canonical) linkChildren() (first, next []ccmap.NodeID) {
	size := c.snapshot.Len()
	first, next = make([]ccmap.NodeID, size), make([]ccmap.NodeID, size)
	for n := range c.childNodes() {
		next[n.ID], first[n.Parent] = first[n.Parent], n.ID
	}
	return first, next
}

// childNodes returns all nodes but the root.
func (c *canonical) childNodes() iter.Seq[ccmap.Node] {
	return func(yield func(ccmap.Node) bool) {
		for n := range c.snapshot.Nodes() {
			if n.ID != root && !yield(n) {
				return
			}
		}
	}
}

// sibling is a node beside others, which have other keys.
type sibling struct {
	id  ccmap.NodeID
	key uint64
}

func (c *canonical) sortLastFirst(family []sibling) {
	for i := range family {
		family[i].key = c.sortKey(family[i].id)
	}
	slices.SortFunc(family, func(a, b sibling) int { return cmp.Compare(b.key, a.key) })
}

// sortKey orders siblings by offset and method. A position node, which has no method, comes
// after all methods.
func (c *canonical) sortKey(id ccmap.NodeID) uint64 {
	n := c.snapshot.Node(id)
	rank := uint32(math.MaxUint32)
	if !n.IsPosition() {
		rank = uint32(c.rank[n.Method])
	}
	return uint64(n.Offset)<<32 | uint64(rank)
}

// entry is a node as documents list it.
type entry struct {
	ccmap.Node
	recent ccmap.Counters // of the window
	index  int            // in the list, from 1; the root is 0
	parent int            // index of the parent
	method int            // index in methods; noMethod in a position node
}

const noMethod = -1

// entries returns all nodes but the root, in canonical order, each valid until the next.
func (c *canonical) entries() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var e entry
		for i, at := range c.order {
			if at.id == root {
				continue
			}
			e = entry{Node: c.snapshot.Node(at.id), index: i, parent: int(at.parent), method: noMethod}
			if !e.IsPosition() {
				e.method = int(c.rank[e.Method])
			}
			if c.recent != nil {
				e.recent = c.recent.Node(at.id).Self
			}
			if !yield(&e) {
				return
			}
		}
	}
}

// frame is one frame of a stack, method being an index in canonical.methods.
type frame struct {
	method int
	offset uint32 // position in the method
}

// stacks returns the nodes that count something, in canonical order, each as
// its stack, outermost frame first. Both are valid until the next one.
func (c *canonical) stacks() iter.Seq2[[]frame, *entry] {
	return func(yield func([]frame, *entry) bool) {
		var stack []frame
		var above lineage
		for e := range c.entries() {
			above = above.upTo(e.parent)
			stack = push(stack[:len(above)], e)
			above = above.with(e)
			if !e.Self.IsZero() && !yield(stack, e) {
				return
			}
		}
	}
}

// lineage has the index of the entry of each frame of a stack, outermost first.
type lineage []int

// upTo returns the lineage up to one of its entries, or to the root.
func (l lineage) upTo(entry int) lineage {
	for len(l) > 0 && l[len(l)-1] != entry {
		l = l[:len(l)-1]
	}
	return l
}

// with returns the lineage with a child of its last entry, if that is a frame.
func (l lineage) with(e *entry) lineage {
	if e.IsPosition() {
		return l
	}
	return append(l, e.index)
}

// stackFrames returns how many frames all stacks have together.
func (c *canonical) stackFrames() (n int64) {
	var above lineage
	for e := range c.entries() {
		above = above.upTo(e.parent).with(e)
		if !e.Self.IsZero() {
			n += int64(len(above))
		}
	}
	return n
}

// push adds a node to the stack of its parent: its offset is the position in
// the frame above, and its own position is not known yet.
func push(stack []frame, e *entry) []frame {
	if len(stack) > 0 {
		stack[len(stack)-1].offset = e.Offset
	}
	if e.IsPosition() {
		return stack
	}
	return append(stack, frame{method: e.method, offset: ccmap.NoOffset})
}
