package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Write writes the snapshot to w, uncompressed. Equal maps give equal bytes.
//
// XML and JSON are linear in the nodes. Pprof and Folded hold whole stacks:
// they are linear in nodes times depth, in time and in bytes written, not in memory.
func Write(w io.Writer, f Format, s *ccmap.Snapshot) error {
	row, ok := formatTable[f]
	if !ok || row.write == nil {
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
// canonical forms. It takes time n log n in the nodes and points, 8 bytes a node, 8 bytes a chain
// of nodes, and a copy of the points.
type canonical struct {
	snapshot   *ccmap.Snapshot
	recent     *ccmap.Snapshot  // the window; nil without one
	hasEvicted bool             // the counts of pruned nodes are written as well
	points     []ccmap.Point    // that the format has a place for; methods are indices in methods
	methods    []ccmap.Method   // those that stand in a node, a point or were pruned, by name and signature
	ids        []ccmap.MethodID // of the methods
	rank       []int32          // by MethodID: index in methods
	chains     []nodeChain      // in the order of their nodes; the first begins at the root
	branched   []uint64         // by node, a bit each: chains hang at it
	hanging    []uint32         // by node: the first chain that does; 0: none
	frames     int64            // of all stacks that count something
}

// nodeChain are nodes whose ids follow each other, each the parent of the next. A new stack makes
// such nodes. A chain begins at the end of the chain before it.
type nodeChain struct {
	end  ccmap.NodeID
	next uint32 // chain that hangs at the same node; 0: none
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
	c.readNodes()
	c.rankMethods()
	c.rankPoints()
	return c
}

// rankMethods sorts the methods in use. Many maps may share Names, which then has methods
// of other maps.
func (c *canonical) rankMethods() {
	names := c.snapshot.Names()
	for i := range c.points {
		for id := range pointMethods(&c.points[i]) {
			c.use(id)
		}
	}
	if c.hasEvicted {
		c.useEvicted()
	}
	slices.SortFunc(c.ids, func(a, b ccmap.MethodID) int {
		x, y := names.At(a), names.At(b)
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Signature, y.Signature))
	})
	for i, id := range c.ids {
		c.rank[id] = int32(i)
		c.methods = append(c.methods, names.At(id))
	}
}

// useEvicted notes the methods of pruned edges, and pruned methods.
func (c *canonical) useEvicted() {
	for e := range c.snapshot.PrunedEdges() {
		c.use(e.Caller)
		c.use(e.Callee)
	}
	for p := range c.snapshot.PrunedMethods() {
		c.use(p.Method)
	}
}

// use notes a method that stands somewhere, unless it is NoMethod.
func (c *canonical) use(id ccmap.MethodID) {
	if id != ccmap.NoMethod && c.rank[id] == unused {
		c.rank[id] = 0
		c.ids = append(c.ids, id)
	}
}

// readNodes finds the chains, notes the methods of all nodes, and counts the frames.
func (c *canonical) readNodes() {
	c.rank = slices.Repeat([]int32{unused}, c.snapshot.Names().Len())
	c.hanging = make([]uint32, c.snapshot.Len())
	c.branched = make([]uint64, c.snapshot.Len()/64+1)
	depths := make([]uint32, c.snapshot.Len()) // by node: frames at and above it
	next := uint32(0)                          // of the last chain
	for n := range c.snapshot.Nodes() {
		if n.ID == root {
			continue
		}
		c.use(n.Method)
		if n.Parent+1 != n.ID {
			c.chains = append(c.chains, nodeChain{n.ID, next})
			next, c.hanging[n.Parent] = c.hanging[n.Parent], uint32(len(c.chains))
			c.branched[n.Parent/64] |= 1 << (n.Parent % 64)
		}
		depth := depths[n.Parent]
		if !n.IsPosition() {
			depth++
		}
		depths[n.ID] = depth
		if !n.Self.IsZero() {
			c.frames += int64(depth)
		}
	}
	c.chains = append(c.chains, nodeChain{ccmap.NodeID(c.snapshot.Len()), next})
}

// run is a part of the preorder that lies in one chain.
type run struct {
	first, end ccmap.NodeID // end of the chain
	parent     int          // of the first: index in the order
	depth      int          // frames above the first; -1: the first is the root
}

// stop returns the end of the run: it stops after a node that other chains hang at.
func (c *canonical) stop(r *run) ccmap.NodeID {
	for at := uint64(r.first); at < uint64(r.end); at += 64 - at%64 {
		if rest := c.branched[at/64] >> (at % 64); rest != 0 {
			return ccmap.NodeID(min(at+uint64(bits.TrailingZeros64(rest))+1, uint64(r.end)))
		}
	}
	return r.end
}

// unfold appends the children of a node, sorted, the first one last. They are the rest of its
// chain, if there is one, and the chains that hang at it.
func (c *canonical) unfold(open []run, n ccmap.NodeID, rest run, family []sibling) ([]run, []sibling) {
	family = family[:0]
	if rest.first < rest.end {
		family = append(family, sibling{id: rest.first, end: rest.end})
	}
	if c.branched[n/64]>>(n%64)&1 != 0 {
		for at := c.hanging[n]; at != 0; at = c.chains[at].next {
			family = append(family, sibling{id: c.chains[at-1].end, end: c.chains[at].end})
		}
	}
	if len(family) > 1 {
		c.sortLastFirst(family)
	}
	for _, s := range family {
		open = append(open, run{s.id, s.end, rest.parent, rest.depth})
	}
	return open, family
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
	id, end ccmap.NodeID // end of its chain
	key     uint64
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
	parent int            // its index in the list, from 1; the root is 0
	depth  int            // frames above
	method int            // index in methods; noMethod in a position node
}

const noMethod = -1

// entries returns all nodes but the root, in canonical order, each valid until the next. A stack
// has the runs that are still to come.
func (c *canonical) entries() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var e entry
		var family []sibling
		index := 0 // in the order
		for open := []run{{end: c.chains[0].end, depth: -1}}; len(open) > 0; {
			r := open[len(open)-1]
			open = open[:len(open)-1]
			e.parent, e.depth = r.parent, r.depth
			end := c.stop(&r)
			for id := r.first; id < end; id++ {
				if id != root && !yield(c.entry(&e, id)) {
					return
				}
				e.parent = index
				e.depth++
				index++
			}
			open, family = c.unfold(open, end-1, run{end, r.end, e.parent, e.depth}, family)
		}
	}
}

// entry sets the node of an entry.
func (c *canonical) entry(e *entry, id ccmap.NodeID) *entry {
	e.Node, e.method = c.snapshot.Node(id), noMethod
	if !e.IsPosition() {
		e.method = int(c.rank[e.Method])
	}
	if c.recent != nil {
		e.recent = c.recent.Node(id).Self
	}
	return e
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
		for e := range c.entries() {
			stack = push(stack[:e.depth], e)
			if !e.Self.IsZero() && !yield(stack, e) {
				return
			}
		}
	}
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
