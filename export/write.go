package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
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
// canonical forms. It takes time n log n in the nodes and points, 20 bytes a node,
// and a copy of the points.
type canonical struct {
	snapshot   *ccmap.Snapshot
	recent     *ccmap.Snapshot  // the window; nil without one
	hasEvicted bool             // the counts of pruned nodes are written as well
	points     []ccmap.Point    // that the format has a place for; methods are indices in methods
	methods    []ccmap.Method   // those that stand in a node, a point or were pruned, by name and signature
	ids        []ccmap.MethodID // of the methods
	rank       []int32          // by MethodID: index in methods
	order      []ccmap.NodeID   // preorder, siblings by offset and method; the root first
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

// sortNodes finds the preorder. Children are grouped by their parent by
// counting, each group is sorted, and a stack unfolds them.
func (c *canonical) sortNodes() {
	children, first := c.groupByParent()
	c.order = make([]ccmap.NodeID, 0, c.snapshot.Len())
	stack := []ccmap.NodeID{root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c.order = append(c.order, id)
		family := children[first[id]:first[id+1]]
		slices.SortFunc(family, func(a, b ccmap.NodeID) int { return c.compareSiblings(b, a) })
		stack = append(stack, family...)
	}
}

// groupByParent returns all nodes but the root, grouped: the children of p are
// children[first[p]:first[p+1]].
func (c *canonical) groupByParent() (children []ccmap.NodeID, first []uint32) {
	size := c.snapshot.Len()
	first = make([]uint32, size+2)
	for n := range c.childNodes() {
		first[n.Parent+2]++
	}
	for i := 2; i < len(first); i++ {
		first[i] += first[i-1]
	}
	children = make([]ccmap.NodeID, size-1)
	for n := range c.childNodes() {
		children[first[n.Parent+1]] = n.ID
		first[n.Parent+1]++
	}
	return children, first
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

// compareSiblings orders by offset and method, position nodes last.
func (c *canonical) compareSiblings(a, b ccmap.NodeID) int {
	x, y := c.snapshot.Node(a), c.snapshot.Node(b)
	return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(c.place(x), c.place(y)))
}

// place is the rank of the method. A position node, which has no method, comes after all
// methods.
func (c *canonical) place(n ccmap.Node) int {
	if n.IsPosition() {
		return len(c.methods)
	}
	return int(c.rank[n.Method])
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

// entries returns all nodes but the root, in canonical order.
func (c *canonical) entries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		index := make([]uint32, c.snapshot.Len())
		for i, id := range c.order {
			index[id] = uint32(i)
			if id == root {
				continue
			}
			n := c.snapshot.Node(id)
			e := entry{Node: n, index: i, parent: int(index[n.Parent]), method: noMethod}
			if !n.IsPosition() {
				e.method = int(c.rank[n.Method])
			}
			if c.recent != nil {
				e.recent = c.recent.Node(id).Self
			}
			if !yield(e) {
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
// its stack, outermost frame first. The slice is valid until the next one.
func (c *canonical) stacks() iter.Seq2[[]frame, entry] {
	return func(yield func([]frame, entry) bool) {
		var stack []frame
		depth := make([]uint32, c.snapshot.Len()) // frames above and at each entry
		for e := range c.entries() {
			stack = push(stack[:depth[e.parent]], e)
			depth[e.index] = uint32(len(stack))
			if !e.Self.IsZero() && !yield(stack, e) {
				return
			}
		}
	}
}

// stackFrames returns how many frames all stacks have together.
func (c *canonical) stackFrames() int64 {
	var n int64
	for stack := range c.stacks() {
		n += int64(len(stack))
	}
	return n
}

// push adds a node to the stack of its parent: its offset is the position in
// the frame above, and its own position is not known yet.
func push(stack []frame, e entry) []frame {
	if len(stack) > 0 {
		stack[len(stack)-1].offset = e.Offset
	}
	if e.IsPosition() {
		return stack
	}
	return append(stack, frame{method: e.method, offset: ccmap.NoOffset})
}
