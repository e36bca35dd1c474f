package export

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// builder puts together the map that a reader restores. It checks each record against
// the limits, and refuses records that no map has.
type builder struct {
	m       *ccmap.Map
	limits  ReadOptions
	memory  *memory // all but the map's
	size    int64   // of the file, bytes; 0: unknown, or it is compressed
	told    progress
	known   *knownStacks     // of a sum; nil: stacks are not remembered
	methods []ccmap.MethodID // by the document's index
	nodes   builtNodes       // by the document's index; the root first
	total   ccmap.Counters
	recent  ccmap.Counters // of all nodes, and of all in the window
	weighed int            // nodes when boundNodes last looked at the memory
	spare   int64          // memory left when afford last looked, bytes

	lines         int // of positions
	inlined       int // calls
	mappings      int
	addresses     int
	located       int // frames of the addresses
	prunedEdges   map[prunedEdgeKey]bool
	prunedMethods map[ccmap.MethodID]bool
	points        map[pointKey]bool
}

// builtNode is a node that a document may name as a parent. A document has millions of them.
type builtNode struct {
	id    ccmap.NodeID
	depth uint32 // frames above and at it; ofPosition: no node can be below it
}

const ofPosition = math.MaxUint32

// builtNodes are nodes in chunks: a list that grows is there twice while it does.
type builtNodes struct {
	chunks []*[builtChunk]builtNode
	len    int
}

const builtChunk = 4 << 10 // nodes

func (l *builtNodes) at(i int) builtNode { return l.chunks[i/builtChunk][i%builtChunk] }

// add adds a node, whose room is taken from the memory.
func (l *builtNodes) add(m *memory, n builtNode) (err error) {
	if l.len == len(l.chunks)*builtChunk {
		if err := m.reserve(int64(unsafe.Sizeof(*l.chunks[0]))); err != nil {
			return err
		}
		if l.chunks, err = keep(m, l.chunks, new([builtChunk]builtNode)); err != nil {
			return err
		}
	}
	l.chunks[l.len/builtChunk][l.len%builtChunk] = n
	l.len++
	return nil
}

func newBuilder(o ReadOptions) *builder {
	b := &builder{
		m:             ccmap.New(ccmap.Options{}),
		limits:        o,
		told:          progress{o.Progress, 0, 1},
		memory:        &memory{limit: o.MaxMemory, ledger: newLedger(o)},
		nodes:         builtNodes{[]*[builtChunk]builtNode{new([builtChunk]builtNode)}, 1},
		prunedEdges:   make(map[prunedEdgeKey]bool),
		prunedMethods: make(map[ccmap.MethodID]bool),
		points:        make(map[pointKey]bool),
	}
	b.m.SetExact(false) // until the document says so
	b.spare = b.left()
	return b
}

// finish returns the map if it is valid.
func (b *builder) finish() (*ccmap.Map, error) {
	if err := b.m.CheckValid(); err != nil {
		return nil, fmt.Errorf("check map: %w", err)
	}
	return b.m, nil
}

// describe makes a document the map's description.
func (b *builder) describe(d metaDoc) error {
	if err := d.restore(b.m); err != nil {
		return err
	}
	return b.memory.reserve(metaMemory(b.m.Meta()))
}

// afford returns an error if the map and the lists of its decoder take too much memory.
func (b *builder) afford() error {
	left := b.left()
	if b.spare = max(left, 0); left < 0 {
		return b.memory.exceeded()
	}
	return b.memory.mapped(b.memory.limit - b.memory.held - left)
}

// note takes the memory of a key. The document is checked for duplicate keys.
func (b *builder) note(key uintptr) error {
	const room = 3 // times as much takes a map while it grows
	return b.memory.reserve(room * int64(key+1))
}

// left returns how many bytes of memory there may be more.
func (b *builder) left() int64 { return b.memory.limit - b.memory.held - mapMemory(b.m) }

// intern adds a method, or finds the one with this name and signature.
func (b *builder) intern(m ccmap.Method) (ccmap.MethodID, error) {
	if m.Name == "" {
		return 0, errors.New("method without a name")
	}
	id := b.m.Names().Intern(m)
	if b.m.Names().Len()-int(ccmap.FirstID) > b.limits.MaxMethods { // pseudo methods are in every table
		return 0, fmt.Errorf("%w: more than %d methods", ErrTooLarge, b.limits.MaxMethods)
	}
	return id, b.afford()
}

// addMethod adds the next method of a document.
func (b *builder) addMethod(d *methodDoc) error {
	m, err := d.method()
	if err != nil {
		return fmt.Errorf("method %d: %w", len(b.methods), err)
	}
	id, err := b.intern(m)
	if err != nil {
		return fmt.Errorf("method %d: %w", len(b.methods), err)
	}
	b.methods, err = keep(b.memory, b.methods, id)
	return err
}

// addNode adds the next node of a document.
func (b *builder) addNode(d *nodeDoc) error {
	n, err := b.place(d)
	if err == nil {
		err = b.count(n.id, d.Self, d.Recent)
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", b.nodes.len, err)
	}
	return b.nodes.add(b.memory, n)
}

// place finds the node below its parent, or makes it.
func (b *builder) place(d *nodeDoc) (builtNode, error) {
	if d.Parent < 0 || d.Parent >= int64(b.nodes.len) {
		return builtNode{}, fmt.Errorf("parent %d does not come before it", d.Parent)
	}
	parent := b.nodes.at(int(d.Parent))
	if parent.depth == ofPosition {
		return builtNode{}, fmt.Errorf("parent %d is a position, and has no children", d.Parent)
	}
	offset, err := offset32(d.Offset)
	if err != nil {
		return builtNode{}, err
	}
	method, err := b.method(d.Method)
	switch {
	case err != nil:
		return builtNode{}, err
	case method == ccmap.NoMethod:
		return b.placePosition(parent, offset)
	}
	if parent.depth == 0 && offset != ccmap.NoOffset {
		return builtNode{}, errors.New("outermost frame with an offset, and nobody called it")
	}
	return b.child(parent, offset, method)
}

func (b *builder) placePosition(parent builtNode, offset uint32) (builtNode, error) {
	if parent.depth == 0 || offset == ccmap.NoOffset {
		return builtNode{}, errors.New("position without a method above it, or without an offset")
	}
	return b.child(parent, offset, ccmap.NoMethod)
}

// child finds or adds a child of a node.
func (b *builder) child(parent builtNode, offset uint32, method ccmap.MethodID) (builtNode, error) {
	n := builtNode{depth: ofPosition}
	if method != ccmap.NoMethod {
		if n.depth = parent.depth + 1; int64(n.depth) > int64(b.limits.MaxDepth) {
			return n, fmt.Errorf("%w: more than %d frames deep", ErrTooDeep, b.limits.MaxDepth)
		}
	}
	n.id = b.m.Child(parent.id, offset, method)
	return n, b.boundNodes()
}

// boundNodes holds the nodes of the map against the limits.
func (b *builder) boundNodes() error {
	nodes := b.m.Len() - 1
	if nodes > b.limits.MaxNodes {
		return fmt.Errorf("%w: more than %d nodes", ErrTooLarge, b.limits.MaxNodes)
	}
	const often = 1 << 10 // the map grows by as many
	if nodes >= b.weighed+often {
		b.weighed = nodes
		return b.afford()
	}
	return nil
}

// addStack adds a stack, outermost frame first, to the counters of its leaf.
func (b *builder) addStack(stack []ccmap.Frame, c ccmap.Counters) error {
	n, call := b.nodes.at(0), ccmap.NoOffset
	for _, f := range stack {
		var err error
		if n, err = b.child(n, call, f.Method); err != nil {
			return err
		}
		call = f.Offset
	}
	if call != ccmap.NoOffset {
		var err error
		if n, err = b.child(n, call, ccmap.NoMethod); err != nil {
			return err
		}
	}
	return b.count(n.id, c, ccmap.Counters{})
}

// count adds to the counters of a node.
func (b *builder) count(id ccmap.NodeID, self, recent ccmap.Counters) error {
	if !self.IsZero() { // most nodes count nothing
		if err := addCounts(&b.total, self); err != nil {
			return err
		}
		b.m.Add(id, self)
	}
	if recent.IsZero() {
		return nil
	}
	if err := b.checkRecent(recent); err != nil {
		return err
	}
	if self.Samples == 0 && self.Time == 0 {
		return errors.New("recent counts of what was never sampled")
	}
	b.m.AddRecent(id, recent)
	return addCounts(&b.recent, recent)
}

var errNegative = errors.New("negative count: the difference of two profiles is no map")

// addCounts adds the counts of a file to a total. It returns an error where a map would
// saturate, since the map would have other counts than the file.
func addCounts(total *ccmap.Counters, c ccmap.Counters) error {
	if c.IsNegative() {
		return errNegative
	}
	sum := ccmap.Counters{Samples: total.Samples + c.Samples, Time: total.Time + c.Time, Activations: total.Activations + c.Activations}
	if sum.IsNegative() { // it has wrapped around
		return errors.New("the counts add up to more than 2⁶³-1")
	}
	*total = sum
	return nil
}
