package compare

// stretches are where the values of the union's nodes can differ. Most nodes
// count nothing themselves and have one child, the node after them, whose value
// is theirs as well. So the nodes fall into stretches, each up to the next node
// where the value changes; in real profiles a node in ten ends one. Values are
// kept by stretch: they fit the cache, and to count once more costs little.
type stretches struct {
	above     []uint32 // by stretch: the one that the parent of its first node is in
	last      []uint32 // by stretch: its last node, which alone may count itself
	stretchOf []uint32 // by node
	roots     []root   // the nodes of outermost frames
}

// root is the node of an outermost frame.
type root struct{ callee, stretch uint32 }

// stretch numbers the stretches, by node in of. Stretch 0 has node 0 and, where
// values are not inclusive, all nodes that count nothing.
func (t *tries) stretch(of []uint32) stretches {
	ends := t.ends()
	s := stretches{above: []uint32{0}, last: []uint32{0}, stretchOf: of}
	number := uint32(0)
	for v := 1; v < len(of); v++ {
		if ends.has(uint32(v - 1)) {
			number++
			s.above = append(s.above, of[t.parent[v]])
			s.last = append(s.last, 0)
		}
		s.last[number] = uint32(v)
		if t.weight.inclusive() || ends.has(uint32(v)) {
			of[v] = number
		}
		if e := t.edges[t.edge[v]]; e.outermost() {
			s.roots = append(s.roots, root{e.callee, of[v]})
		}
	}
	return s
}

// ends returns the nodes whose value may differ from that of the node after them.
func (t *tries) ends() bitset {
	ends := newBitset(t.len())
	ends.add(0)
	for _, s := range []side{t.a, t.b} {
		for _, c := range s.counted {
			ends.add(c.at)
		}
	}
	for v := 1; v < t.len(); v++ {
		if above := t.parent[v]; above+1 != uint32(v) {
			ends.add(above)
			ends.add(uint32(v - 1))
		}
	}
	return ends
}

// joined returns, by stretch, the one that it is a part of. Some are stretches only
// because the nodes that follow are elsewhere, which depends on the order in which
// stacks were laid over each other: their value is that of the next.
func (t *tries) joined() []uint32 {
	below := make([]uint32, len(t.above)) // how many stretches are, or more if it counts itself
	for _, above := range t.above[1:] {
		below[above]++
	}
	for _, s := range []side{t.a, t.b} {
		for _, c := range s.counted {
			below[c.at] += 2
		}
	}
	joined := make([]uint32, len(t.above))
	for i := len(joined) - 1; i >= 0; i-- {
		if joined[i] == 0 {
			joined[i] = uint32(i)
		}
		if above := t.above[i]; i > 0 && above > 0 && below[above] == 1 && t.weight.inclusive() {
			joined[above] = joined[i]
		}
	}
	return joined
}

// bitset is a set of nodes.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, n/64+1) }

func (b bitset) add(v uint32) { b[v/64] |= 1 << (v % 64) }

func (b bitset) has(v uint32) bool { return b[v/64]&(1<<(v%64)) != 0 }
