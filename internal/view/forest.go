package view

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// step is a frame of a path in a forest: a method, and a call. Downwards it is the call that leads to the method, in
// its caller; upwards it is the call that the method makes. A position that is not told apart is ccmap.NoOffset.
type step struct{ method, offset uint32 } // method: number in the lexicon

// lexicon numbers methods by their names and signatures, which are the same in all snapshots. 0 is no method.
type lexicon struct {
	numbers map[[2]string]uint32
	methods []ccmap.Method
	hashes  []uint64
}

func newLexicon() *lexicon {
	return &lexicon{numbers: make(map[[2]string]uint32), methods: make([]ccmap.Method, 1), hashes: make([]uint64, 1)}
}

func (l *lexicon) number(m ccmap.Method) uint32 {
	key := [2]string{m.Name, m.Signature}
	n, known := l.numbers[key]
	if !known {
		n = uint32(len(l.methods))
		l.numbers[key], l.methods = n, append(l.methods, m)
		l.hashes = append(l.hashes, xxhash.Sum64String(m.Name+"\x00"+m.Signature))
	}
	return n
}

// rootPath is the hash of the path without frames.
var rootPath = xxhash.Sum64(nil)

// extend returns the hash of a path that is a frame longer. Equal paths have equal hashes in all snapshots.
func (l *lexicon) extend(path uint64, by step) uint64 {
	var text [20]byte
	binary.LittleEndian.PutUint64(text[:], path)
	binary.LittleEndian.PutUint64(text[8:], l.hashes[by.method])
	binary.LittleEndian.PutUint32(text[16:], by.offset)
	return xxhash.Sum64(text[:])
}

func (l *lexicon) compare(a, b step) int {
	x, y := &l.methods[a.method], &l.methods[b.method]
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Signature, y.Signature), cmp.Compare(a.offset, b.offset))
}

// spot is a node that a frame of a graph stands for, and the node whose counters count for it: the same one downwards;
// upwards the one that the walk began with.
type spot struct{ at, of ccmap.NodeID }

// trunk is a snapshot whose nodes become a graph.
type trunk struct {
	*ccmap.Snapshot
	numbers     []uint32                  // of methods in the lexicon, by ccmap.MethodID
	ids         map[uint32]ccmap.MethodID // the reverse: one of them
	first, next []ccmap.NodeID            // child and sibling, by node, without positions; 0: none
	calls       []int64                   // activations of a node and all below it, by node; nil: they are not the width
	roots       []spot
}

// newTrunk returns the trunk of a snapshot, in one walk through its nodes. Down: its nodes know their children.
func newTrunk(s *ccmap.Snapshot, l *lexicon, down bool) *trunk {
	t := &trunk{Snapshot: s, numbers: make([]uint32, s.Names().Len()), ids: make(map[uint32]ccmap.MethodID)}
	if down {
		t.first, t.next = make([]ccmap.NodeID, t.Len()), make([]ccmap.NodeID, t.Len())
	}
	for n := range s.Nodes() {
		if n.Method == ccmap.NoMethod {
			continue
		}
		if t.numbers[n.Method] == 0 {
			t.numbers[n.Method] = l.number(s.Names().At(n.Method))
			t.ids[t.numbers[n.Method]] = n.Method
		}
		if down {
			t.next[n.ID], t.first[n.Parent] = t.first[n.Parent], n.ID
		}
	}
	return t
}

// sumCalls adds up the activations below each node.
func (t *trunk) sumCalls() {
	t.calls = make([]int64, t.Len())
	for id := t.Len() - 1; id >= 0; id-- {
		n := t.Node(ccmap.NodeID(id))
		t.calls[id] += n.Self.Activations
		if id > 0 {
			t.calls[n.Parent] += t.calls[id]
		}
	}
}

// selves returns the nodes where samples were taken, and if called is true those that were called. A position stands
// for its method.
func (t *trunk) selves(called bool) (all []spot) {
	for n := range t.Nodes() {
		if n.Self.Samples == 0 && n.Self.Time == 0 && !(called && n.Self.Activations > 0) {
			continue
		}
		at := n.ID
		if n.IsPosition() {
			at = n.Parent
		}
		all = append(all, spot{at, n.ID})
	}
	return all
}

// forest is one snapshot or two, whose stacks are looked at from a root: downwards to what it calls, or upwards to
// its callers. It is a tree that is found branch by branch: nothing is computed for what is too narrow to be seen.
type forest struct {
	*lexicon
	trunks []*trunk
	up     bool
	whole  bool // the root is the whole profile, else some frames in it
	calls  bool // activations are counted with those of all that is below
}

// branch is a frame of the tree, with the nodes that it stands for in each snapshot.
type branch struct {
	step
	path  uint64 // hash
	spots [2][]spot
	total [2]ccmap.Counters
}

// root returns the root of the tree.
func (f *forest) root() *branch {
	b := &branch{step: step{0, ccmap.NoOffset}, path: rootPath}
	for i, t := range f.trunks {
		for _, s := range t.roots {
			b.add(i, s, f.count(t, s))
		}
	}
	return b
}

func (b *branch) add(side int, s spot, c ccmap.Counters) {
	b.spots[side] = append(b.spots[side], s)
	b.total[side] = b.total[side].Add(c)
}

// count returns the counters of a spot. Upwards from the whole profile, each sample is counted where it was taken, and
// each call where it was made.
func (f *forest) count(t *trunk, s spot) ccmap.Counters {
	if !f.up || !f.whole {
		c := t.Inclusive(s.of)
		if f.calls {
			c.Activations = t.calls[s.of]
		}
		return c
	}
	self := t.Node(s.of).Self
	if !f.calls {
		self.Activations = 0
	}
	return self
}

// below returns the branches of a branch, in no order. What has no counters, as in a window, is left out.
func (f *forest) below(b *branch) []*branch {
	var all []*branch
	known := make(map[step]*branch)
	for side, t := range f.trunks {
		for _, from := range b.spots[side] {
			for by, to := range f.steps(t, b, from) {
				c := f.count(t, to)
				if c.IsZero() {
					continue
				}
				next := known[by]
				if next == nil {
					next = &branch{step: by, path: f.extend(b.path, by)}
					known[by], all = next, append(all, next)
				}
				next.add(side, to, c)
			}
		}
	}
	return all
}

// steps walks from a spot of a branch, one step on.
func (f *forest) steps(t *trunk, b *branch, from spot) iter.Seq2[step, spot] {
	return func(yield func(step, spot) bool) {
		if f.up {
			if by, to, ok := f.climb(t, from, b.path == rootPath); ok {
				yield(by, to)
			}
			return
		}
		for child := t.first[from.at]; child != 0; child = t.next[child] {
			n := t.Node(child)
			if !yield(step{t.numbers[n.Method], n.Offset}, spot{child, child}) {
				return
			}
		}
	}
}

// climb returns the step to the caller. From the root of a whole profile, the first step is the method that a sample
// was taken in.
func (f *forest) climb(t *trunk, from spot, isRoot bool) (by step, to spot, ok bool) {
	n := t.Node(from.at)
	switch {
	case n.ID == 0:
		return by, to, false
	case isRoot && f.whole:
		return step{t.numbers[n.Method], ccmap.NoOffset}, from, true
	case n.Parent == 0:
		return by, to, false
	}
	return step{t.numbers[t.Node(n.Parent).Method], n.Offset}, spot{n.Parent, from.of}, true
}

// find returns the branch of a path, by its hash: in one pass downwards, and by the stacks of all roots upwards.
func (f *forest) find(path uint64) (*branch, bool) {
	root := f.root()
	if path == root.path {
		return root, true
	}
	b := &branch{path: path}
	for side, t := range f.trunks {
		walk := f.findBelow
		if f.up {
			walk = f.findAbove
		}
		for by, s := range walk(t, path) {
			b.step = by
			b.add(side, s, f.count(t, s))
		}
	}
	return b, b.step.method != 0
}

func (f *forest) findBelow(t *trunk, path uint64) iter.Seq2[step, spot] {
	return func(yield func(step, spot) bool) {
		hashes := make([]uint64, t.Len()) // 0: not below a root
		for _, r := range t.roots {
			hashes[r.at] = rootPath
		}
		for n := range t.Nodes() {
			if hashes[n.Parent] == 0 || n.Method == ccmap.NoMethod {
				continue
			}
			by := step{t.numbers[n.Method], n.Offset}
			hashes[n.ID] = f.extend(hashes[n.Parent], by)
			if hashes[n.ID] == path && !yield(by, spot{n.ID, n.ID}) {
				return
			}
		}
	}
}

func (f *forest) findAbove(t *trunk, path uint64) iter.Seq2[step, spot] {
	return func(yield func(step, spot) bool) {
		for _, at := range t.roots {
			hash := rootPath
			for {
				by, to, ok := f.climb(t, at, hash == rootPath)
				if !ok {
					break
				}
				if at, hash = to, f.extend(hash, by); hash == path {
					if !yield(by, at) {
						return
					}
					break
				}
			}
		}
	}
}

// node returns a node that a branch stands for, in the first snapshot that has one.
func (f *forest) node(b *branch) (*trunk, ccmap.Node) {
	for side, t := range f.trunks {
		if len(b.spots[side]) > 0 {
			return t, t.Node(b.spots[side][0].at)
		}
	}
	return f.trunks[0], f.trunks[0].Node(0)
}

// line returns the line of the call of a branch, 0 where it is unknown.
func (f *forest) line(b *branch) int32 {
	t, caller := f.node(b)
	if !f.up {
		caller = t.Node(caller.Parent)
	}
	if caller.Method == ccmap.NoMethod {
		return 0
	}
	return f.lineOf(step{t.numbers[caller.Method], b.offset})
}

// lineOf returns the line of a call, which may be known to one snapshot only.
func (f *forest) lineOf(call step) int32 {
	for _, t := range f.trunks {
		id, known := t.ids[call.method]
		if !known {
			continue
		}
		if line := t.Names().Line(ccmap.Frame{Method: id, Offset: call.offset}); line != 0 {
			return line
		}
	}
	return 0
}

// bar is a frame that is wide enough to be seen. Total is Self, the totals of the bars below it, and Rest, in samples
// and time, and in activations if they are the width.
type bar struct {
	step
	path   uint64
	trunk  *trunk     // that has the node
	node   ccmap.Node // one that the bar stands for
	parent int        // in the list; the root is its own
	depth  int
	line   int32 // of the call; 0: unknown
	total  [2]ccmap.Counters
	self   [2]ccmap.Counters // the end of the walk: taken here or, upwards, called by nothing
	rest   [2]ccmap.Counters // of the branches that are too narrow
	more   int               // how many these are
}

// widths say how wide branches are drawn, and how wide they are for the cut, as parts of the root. No branch is wider
// than the one that it is below.
type widths struct {
	drawn, cut func([2]ccmap.Counters) float64
}

// pruning says which branches are wide enough: 1/divisor of the root or more.
type pruning struct {
	widths
	divisor int // 0: none is
	most    int // bars
}

func (p pruning) keeps(c [2]ccmap.Counters) bool {
	const rounding = 1e-9
	return p.cut(c)*float64(p.divisor) >= 1-rounding && p.divisor > 0
}

// cut lists the bars of a tree, parents first, and siblings by width. It fails if there are too many.
func (f *forest) cut(root *branch, p pruning) (bars []bar, ok bool) {
	type waiting struct {
		*branch
		parent, depth int
	}
	for stack := []waiting{{root, 0, 0}}; len(stack) > 0; {
		w := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		at, below := f.bar(w.branch, p)
		at.parent, at.depth = w.parent, w.depth
		bars = append(bars, at)
		for _, b := range slices.Backward(below) {
			stack = append(stack, waiting{b, len(bars) - 1, w.depth + 1})
		}
		if len(bars)+len(stack) > p.most {
			return nil, false
		}
	}
	return bars, true
}

// bar returns the bar of a branch, and the branches that are wide enough, the widest first.
func (f *forest) bar(b *branch, p pruning) (bar, []*branch) {
	at := bar{step: b.step, path: b.path, line: f.line(b), total: b.total, self: b.total}
	at.trunk, at.node = f.node(b)
	below := slices.DeleteFunc(f.below(b), func(c *branch) bool {
		kept := p.keeps(c.total)
		for side := range c.total {
			at.self[side].Samples -= c.total[side].Samples
			at.self[side].Time -= c.total[side].Time
			at.self[side].Activations -= c.total[side].Activations
			if !kept {
				at.rest[side] = at.rest[side].Add(c.total[side])
			}
		}
		if !kept {
			at.more++
		}
		return !kept
	})
	for side := range at.self {
		if !f.calls {
			at.self[side].Activations, at.rest[side].Activations = 0, 0 // calls of other methods
		}
	}
	slices.SortFunc(below, func(x, y *branch) int {
		return cmp.Or(cmp.Compare(p.drawn(y.total), p.drawn(x.total)), f.compare(x.step, y.step))
	})
	return at, below
}
