package ccmap

import (
	"math/bits"
	"slices"
	"unsafe"
)

// bases are the counts of removed nodes, kept so that totals of edges and methods
// stay exact. There is one for every edge that a removed node had: as many as the
// program has, at most, not as many as there are contexts.
//
// Snapshots share keys, which are only appended to, and edges and methods, which
// are copied before they are written to after a snapshot.
type bases struct {
	keys    []edgeKey
	edges   []edgeBase // of the keys
	methods []methodBase
	shared  bool  // with a snapshot: edges and methods
	octave  int64 // of all that is recent

	// The writer's alone:
	usual    []uint32 // by edge: the edge that was last seen below it, or any
	slots    []uint32 // index in keys plus 1, by hash; 0: empty
	methodAt []uint32 // index in methods plus 1, by method
}

type edgeBase struct {
	total  Counters
	recent weights
}

type methodBase struct {
	method                       MethodID
	self, cumulative             span
	recentSelf, recentCumulative weights
}

// own makes the bases the writer's alone, in the octave of the clock.
func (b *bases) own(c *clock) {
	if b.shared {
		b.edges, b.methods, b.shared = slices.Clone(b.edges), slices.Clone(b.methods), false
	}
	if b.octave != c.octave {
		b.fade(octaves(b.octave - c.octave))
		b.octave = c.octave
	}
}

// fade multiplies all that is recent.
func (b *bases) fade(f float64) {
	for i := range b.edges {
		b.edges[i].recent = b.edges[i].recent.times(f)
	}
	for i := range b.methods {
		m := &b.methods[i]
		m.recentSelf, m.recentCumulative = m.recentSelf.times(f), m.recentCumulative.times(f)
	}
}

// forgetRecent drops all that is recent, for a clock that starts anew.
func (b *bases) forgetRecent() {
	b.own(&clock{octave: b.octave})
	b.fade(0)
	b.octave = 0
}

// freeze returns the bases as they are, for readers; b remains the writer's.
func (b *bases) freeze() bases {
	b.shared = true
	return bases{keys: b.keys, edges: b.edges, methods: b.methods, octave: b.octave}
}

// edge returns the index of an edge, and adds it if it is new.
func (b *bases) edge(key edgeKey) uint32 {
	if (len(b.keys)+1)*maxLoadDen > len(b.slots)*maxLoadNum {
		b.rehash()
	}
	i := b.slot(key)
	if b.slots[i] == 0 {
		b.keys, b.edges, b.usual = append(b.keys, key), append(b.edges, edgeBase{}), append(b.usual, 0)
		b.slots[i] = uint32(len(b.keys))
	}
	return b.slots[i] - 1
}

// edgeBelow returns the index of an edge that was seen below another. Mostly it is
// the one that was last seen there: that costs no hashing.
func (b *bases) edgeBelow(above uint32, key edgeKey) uint32 {
	if int(above) < len(b.usual) && b.keys[b.usual[above]] == key {
		return b.usual[above]
	}
	return b.unusual(above, key)
}

// unusual is edgeBelow for an edge that was not the last one seen there.
func (b *bases) unusual(above uint32, key edgeKey) uint32 {
	e := b.edge(key)
	b.usual[above] = e
	return e
}

// slot returns the slot that has the edge, or the empty one for it.
func (b *bases) slot(key edgeKey) int {
	for i := key.start(len(b.slots)); ; i++ {
		if i == len(b.slots) {
			i = 0
		}
		if e := b.slots[i]; e == 0 || b.keys[e-1] == key {
			return i
		}
	}
}

// start returns where the search for an edge begins.
func (k edgeKey) start(slots int) int {
	const odd = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio
	hi, lo := bits.Mul64((uint64(k.site)<<32|uint64(k.callee))^odd, (uint64(k.caller)+1)*odd)
	at, _ := bits.Mul64(hi^lo, uint64(slots))
	return int(at)
}

func (b *bases) rehash() {
	b.slots = make([]uint32, max(minSlots, 2*len(b.slots)))
	for i, key := range b.keys {
		b.slots[b.slot(key)] = uint32(i + 1)
	}
}

// method returns the base of a method, and adds it if it is new.
func (b *bases) method(id MethodID) *methodBase {
	if int64(id) >= int64(len(b.methodAt)) {
		b.methodAt = append(b.methodAt, make([]uint32, int(id)+1-len(b.methodAt))...)
	}
	if b.methodAt[id] == 0 {
		b.methods = append(b.methods, methodBase{method: id})
		b.methodAt[id] = uint32(len(b.methods))
	}
	return &b.methods[b.methodAt[id]-1]
}

// bytes returns the memory held.
func (b *bases) bytes() int64 {
	return int64(cap(b.keys))*int64(unsafe.Sizeof(edgeKey{})) +
		int64(cap(b.edges))*int64(unsafe.Sizeof(edgeBase{})) +
		int64(cap(b.methods))*int64(unsafe.Sizeof(methodBase{})) +
		int64(cap(b.usual)+cap(b.slots)+cap(b.methodAt))*int64(unsafe.Sizeof(uint32(0)))
}

// saturate adds counts, up to the largest.
func (s *span) saturate(c Counters) {
	s.samples = addSaturated(s.samples, max(c.Samples, 0))
	s.time = addSaturated(s.time, max(c.Time, 0))
}

func (s span) counters() Counters { return Counters{Samples: s.samples, Time: s.time} }
