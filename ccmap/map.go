package ccmap

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Options of a map. The zero value is useful.
type Options struct {
	Names *Names // of the samples that the map will fold; a new table if nil
	Seed  uint64 // of the hash; 0: a random one. Results never depend on it

	// MaxBytes bounds Map.Bytes: Fold and Merge prune a map that outgrows it. The
	// totals of methods and edges, and the points, are kept even if they alone exceed
	// it. A very deep stack can exceed it while it is folded. 0 or less: no bound.
	MaxBytes int64
	// Moments is told when and where Fold counts each sample. It must not use the map. Nil: nobody is. The map then
	// takes 8 bytes more a node.
	Moments func(Moment)
	// Window is the time constant of the recent counters, at least a millisecond.
	// 0 or less: there are none.
	Window time.Duration
}

// Map is a Call Context Map under construction.
//
//	nodes     structure of the trie       append-only; shared with snapshots
//	columns   counters of the nodes       copied on write; shared with snapshots
//	recent    the same, of the window     copied on write; shared with snapshots
//	evicted   counters of removed nodes   copied on write; shared with snapshots
//	points    profile points              replaced as a whole; shared with snapshots
//	table     finds unchained nodes       the writer's alone
//	last      last stacks of threads      the writer's alone
//	stacks    finds known stacks          the writer's alone
//	due       counts not in columns yet   the writer's alone
//	ids       numbers of contexts         the writer's alone
//
// Pruning replaces nodes and their counters by new ones: it never writes to memory
// that snapshots share.
//
// One goroutine, the writer, calls its methods. It hands a [Snapshot] to all
// others, and goes on while they read.
type Map struct {
	nodes
	columns columns
	recent  recent
	evicted evicted
	points  points
	table   table
	last    lastStacks
	stacks  knownStacks
	due     [maxDue]dueCount
	dues    int // of due

	tell    func(Moment) // of each sample; nil: nobody wants it
	ids     pathIDs      // of the contexts that were told
	moments iter.Seq[Moment]

	names   *Names
	meta    Meta
	covered covered // by the parts of meta
	total   Counters
	inexact bool // activations are a lower bound

	generation uint64 // of node ids: how often they changed
	maxBytes   int64
	outgrown   int64 // bytes; Fold and Merge prune a larger map
	measured   int   // size when Fold last compared Bytes with outgrown
}

// New returns an empty map.
func New(o Options) *Map {
	if o.Names == nil {
		o.Names = NewNames()
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	m := &Map{names: o.Names, tell: o.Moments}
	m.recent.clock = newClock(o.Window)
	m.table.seed, m.stacks.seed = o.Seed, o.Seed
	m.table.reset(0)
	m.last.init()
	m.setBudget(o.MaxBytes)
	m.addChunk()
	*m.at(0) = rootNode
	m.nodes.len = 1
	return m
}

// Names returns the table that the map's methods are ids of.
func (m *Map) Names() *Names { return m.names }

// Meta returns the map's description, for the writer to fill. Snapshots hold a
// deep copy.
func (m *Map) Meta() *Meta { return &m.meta }

// Root returns the node above all outermost frames.
func (m *Map) Root() NodeID { return 0 }

// Len returns the number of nodes, the root among them.
func (m *Map) Len() int { return int(m.nodes.len) }

// Bytes returns the memory held by nodes, counters, evicted counters, points, tables
// and last stacks, without the names, and without memory that only snapshots hold.
func (m *Map) Bytes() int64 {
	return m.nodes.bytes() + m.columns.bytes() + m.recent.bytes() + m.evicted.bytes() + m.points.bytes + m.table.bytes() + m.last.bytes() + m.stacks.bytes() + m.ids.bytes()
}

// ActivationsExact reports whether every activation of the target that a sample
// found was counted exactly once. Otherwise they are a lower bound. It is true
// of an empty map, and false once a sample with unknown activations was folded.
func (m *Map) ActivationsExact() bool { return !m.inexact }

// SetExact says whether the activations given to Add are exact.
func (m *Map) SetExact(exact bool) { m.inexact = !exact }

// Child returns the child of parent that stands for a call of method at offset,
// and adds it if it is new. With NoMethod it is the position node of offset.
// A decoder builds a map with Child and Add, in time linear in its nodes.
//
// Child replaces impossible arguments by the closest possible ones. Outermost
// frames have the call site NoOffset, whatever offset says. An unknown position, and
// any position of the root, is the parent itself. A position node has no children:
// they are its parent's. A node of [PrunedName] has no children either, and its call
// site is NoOffset. A method that Names does not hold is [UnknownName]. Only a parent
// that does not exist panics.
func (m *Map) Child(parent NodeID, offset uint32, method MethodID) NodeID {
	if uint32(parent) >= m.nodes.len {
		panic("ccmap: child of a node that does not exist")
	}
	if above := m.at(parent); parent != 0 && (above.method == NoMethod || above.method == PrunedID) {
		parent = above.parent
	}
	if method == NoMethod && (parent == 0 || offset == NoOffset) {
		return parent
	}
	if method != NoMethod {
		method = m.known(method, m.names.Len())
	}
	if parent == 0 || method == PrunedID {
		offset = NoOffset
	}
	return m.child(node{offset, method, parent})
}

// Add adds to the counters of a node, which must exist. Negative counts are taken
// as 0. Counts that would make the map's total overflow are cut. Counts for the
// root, which stands for no frame, are dropped. Activations of a position go to its
// parent, as only methods are called. Activations of [PrunedName] are dropped.
func (m *Map) Add(n NodeID, c Counters) {
	if n == 0 {
		return
	}
	what := m.at(n)
	if what.method == PrunedID {
		c.Activations = 0
	}
	c = m.admit(c)
	if c.Activations != 0 && what.method == NoMethod {
		m.columns.add(what.parent, Counters{Activations: c.Activations})
		c.Activations = 0
	}
	m.columns.add(n, c)
}

// admit adds counts to the total, as far as there is room, and returns the part that
// it added. So no sum over different nodes can overflow.
func (m *Map) admit(c Counters) Counters {
	return Counters{
		Samples:     admit(&m.total.Samples, c.Samples),
		Time:        admit(&m.total.Time, c.Time),
		Activations: admit(&m.total.Activations, c.Activations),
	}
}

func admit(total *int64, n int64) int64 {
	n = min(max(n, 0), math.MaxInt64-*total)
	*total += n
	return n
}

// known returns the method, or UnknownID if it is not under limit, the length of the
// names table.
func (m *Map) known(id MethodID, limit int) MethodID {
	if int64(id) < int64(limit) {
		return id
	}
	return UnknownID
}

// child finds or adds a node.
func (m *Map) child(what node) NodeID {
	if next := what.parent + 1; *m.at(next) == what {
		return next
	}
	return m.branch(what)
}

// branch finds or adds a node that does not follow its parent.
func (m *Map) branch(what node) NodeID {
	if uint32(what.parent)+1 == m.nodes.len {
		return m.append(what) // the last node has no children yet
	}
	if n := m.table.find(&m.nodes, what); n != 0 {
		return n
	}
	n := m.append(what)
	m.table.insert(n, what)
	return n
}

// append adds a node after all others.
func (m *Map) append(what node) NodeID {
	n := NodeID(m.nodes.len)
	*m.at(n) = what
	if m.nodes.len++; m.nodes.len&chunkMask == 0 {
		m.addChunk()
	}
	return n
}

func (m *Map) addChunk() {
	m.nodes.grow()
	m.columns.grow()
	if m.recent.on() {
		m.recent.grow()
	}
}
