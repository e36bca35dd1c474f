package compare

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// compressed are the compressed paths of the union. Most nodes count nothing
// themselves and have one child, the node after them, which has the same value. So
// a path ends where the value changes; in real profiles at one node in ten. Values
// are kept by path: they fit the cache, and another draw costs little.
type compressed struct {
	above        []uint32 // by path: the path that its first node hangs at
	last         []uint32 // by path: its last node, the only one that may count itself
	compressedOf []uint32 // by node
	roots        []root   // the nodes of outermost frames
}

// root is the node of an outermost frame.
type root struct{ callee, path uint32 }

// compressPaths finds the compressed paths, and writes the path of each node to of.
// Path 0 has node 0 and, where values are not inclusive, all nodes that count nothing.
func (t *tries) compressPaths(of []uint32) compressed {
	p := t.ends()
	s := compressed{compressedOf: of, last: make([]uint32, 0, p.Number())}
	for v := range p.Ends() {
		s.last = append(s.last, v)
	}
	for v := uint32(1); int(v) < len(of); v++ {
		if above := t.parent[v]; above+1 != v {
			p.Hang(v, above)
		}
		if t.weight.inclusive() || p.IsEnd(v) {
			of[v] = p.Of(v)
		}
		if e := t.edges.Keys[t.edge[v]]; isOutermost(e) {
			s.roots = append(s.roots, root{e.Callee, of[v]})
		}
	}
	s.above = p.Above
	return s
}

// ends returns the compressed paths, with their ends marked. Node 0 is a path of its own.
func (t *tries) ends() tree.Paths {
	p := tree.NewPaths(t.len())
	p.End(0)
	for _, s := range []side{t.a, t.b} {
		for _, c := range s.counted {
			p.End(c.at)
		}
	}
	for v := uint32(1); int(v) < t.len(); v++ {
		if above := t.parent[v]; above+1 != v {
			p.Branch(v, above)
		}
	}
	return p
}

// joined returns, by compressed path, the path that it is a part of. Some paths end
// only because the nodes that follow are elsewhere, which depends on the order in
// which stacks were placed. Such a path has the value of the next one.
func (t *tries) joined() []uint32 {
	below := make([]uint32, len(t.above)) // how many paths hang there, or more if it counts itself
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

// order holds the nodes of a union sorted by their path, read upward: as the word
// of edges from the node to the outermost frame. The edge to the outermost frame is
// left out, as it says nothing that the edge below it does not. So the nodes of
// outermost frames, whose word is empty, are left out too.
//
// The nodes where one path ends, in any context, are neighbours.
type order struct {
	// nodes from place 1; place 0 is node 0, which stands for the empty word.
	nodes []uint32
	// shared has, by place, how many edges the word has in common with the one
	// before it. It is 0 at places 0 and 1, and where the first edge changes.
	shared minima
}

// sortPaths sorts by prefix doubling (Karp, Miller and Rosenberg; Manber and
// Myers). When words are sorted by their first h edges, the rank of the h-th
// ancestor sorts them by 2h: it is the rank of the rest of the word. The number of
// rounds is the number of binary digits of the depth, with recursion or without;
// refining by one edge after another would take as many rounds as the depth.
func sortPaths(u *union) order {
	s := newSorter(u)
	for h := uint32(1); s.refine(h); h *= 2 {
		s.climb()
	}
	return s.order
}

// sorter is an unfinished order: words are sorted by their first h edges.
type sorter struct {
	order
	// rank of a node: the first place of the words that are equal to its word so far.
	// Empty words have rank 0.
	rank     []uint32
	ancestor []uint32 // by node: the node h edges up; 0 if the stack is shorter
	keys     []uint64 // room for the largest group
}

// newSorter sorts the words by their first edge: h is 1.
func newSorter(u *union) *sorter {
	first := firstPlaces(u)
	places := first[len(u.edges.Keys)]
	s := &sorter{
		order:    order{make([]uint32, places), newMinima(int(places))},
		rank:     make([]uint32, u.len()),
		ancestor: slices.Clone(u.parent),
		keys:     make([]uint64, 0, largestGroup(first)),
	}
	s.shared.lower(0, 0)
	next := slices.Clone(first)
	for v, e := range u.edge {
		if isOutermost(u.edges.Keys[e]) {
			continue
		}
		s.shared.lower(int(first[e]), 0)
		s.rank[v] = first[e]
		s.nodes[next[e]] = uint32(v)
		next[e]++
	}
	return s
}

// firstPlaces returns, by edge, the first place of the words that begin with
// it, and after the last edge the number of places.
func firstPlaces(u *union) []uint32 {
	first := make([]uint32, len(u.edges.Keys)+1)
	first[0] = 1
	for _, e := range u.edge {
		if !isOutermost(u.edges.Keys[e]) {
			first[e+1]++
		}
	}
	for e := range u.edges.Keys {
		first[e+1] += first[e]
	}
	return first
}

func largestGroup(first []uint32) (size uint32) {
	for e := range first[1:] {
		size = max(size, first[e+1]-first[e])
	}
	return size
}

// climb doubles the distance of the ancestors. It goes from the last node to the
// first, so that smaller nodes still have the old distance.
func (s *sorter) climb() {
	for v := len(s.ancestor) - 1; v > 0; v-- {
		s.ancestor[v] = s.ancestor[s.ancestor[v]]
	}
}

// refine sorts the words by their first 2h edges. It reports whether any had
// the first h in common.
func (s *sorter) refine(h uint32) bool {
	found := false
	for lo := 1; lo < len(s.nodes); {
		hi := lo + 1
		for hi < len(s.nodes) && s.shared.at(hi) == unknown {
			hi++
		}
		if hi-lo > 1 {
			found = true
			s.refineGroup(lo, hi, h)
		}
		lo = hi
	}
	return found
}

// refineGroup sorts the words of one rank by the edges after their first h, and
// ranks them anew. Other ranks may have been refined before in this round, which
// does no harm: their order only became finer.
//
// Neighbours of different rank now share h edges and the edges that their rests
// share: the least number shared between the places of the rests.
func (s *sorter) refineGroup(lo, hi int, h uint32) {
	keys := s.keys[:0]
	for _, v := range s.nodes[lo:hi] {
		keys = append(keys, uint64(s.rank[s.ancestor[v]])<<32|uint64(v))
	}
	slices.Sort(keys)
	last := int(keys[0] >> 32)
	for i, key := range keys {
		if rest := int(key >> 32); rest != last {
			s.shared.lower(lo+i, h+s.shared.least(last+1, rest+1))
			last = rest
		}
	}
	first := lo
	for i, key := range keys {
		if s.shared.at(lo+i) != unknown {
			first = lo + i
		}
		v := uint32(key)
		s.nodes[lo+i] = v
		s.rank[v] = uint32(first)
	}
}

// unknown is larger than any number of edges that two words share.
const unknown = 1<<32 - 1

// minima is an array of numbers, unknown at first. It finds the least in any range in
// O(log n). Each level above the first has the least of every fanOut entries below it.
type minima [][]uint32

const (
	fanOutBits = 4
	fanOut     = 1 << fanOutBits
)

func newMinima(n int) minima {
	var m minima
	for {
		level := make([]uint32, n)
		for i := range level {
			level[i] = unknown
		}
		m = append(m, level)
		if n < fanOut {
			return m
		}
		n = (n + fanOut - 1) >> fanOutBits
	}
}

func (m minima) at(i int) uint32 { return m[0][i] }

// lower sets entry i to v, which must not be larger than the entry.
func (m minima) lower(i int, v uint32) {
	m[0][i] = v
	for _, level := range m[1:] {
		i >>= fanOutBits
		if level[i] <= v {
			return
		}
		level[i] = v
	}
}

// least returns the least of the entries from lo up to but not at hi.
func (m minima) least(lo, hi int) uint32 {
	least := uint32(unknown)
	for _, level := range m {
		for ; lo < hi && lo%fanOut != 0; lo++ {
			least = min(least, level[lo])
		}
		for ; lo < hi && hi%fanOut != 0; hi-- {
			least = min(least, level[hi-1])
		}
		if lo == hi {
			break
		}
		lo >>= fanOutBits
		hi >>= fanOutBits
	}
	return least
}

// paths give the counters of paths of two methods or more. The counter of a path is
// the sum of the nodes where the path ends, which are neighbours in the order.
type paths struct {
	order
	compressedAt []uint32 // by place: the compressed path of the node
	own          []uint64 // by compressed path: number of paths that end in it once and in no other one
}

// newPaths needs the compressed path of each node, and how many there are.
func newPaths(u *union, o order, compress []uint32, compressed int) paths {
	p := paths{o, make([]uint32, len(o.nodes)), make([]uint64, compressed)}
	for place, v := range o.nodes {
		p.compressedAt[place] = compress[v]
		if place > 0 {
			p.own[compress[v]] += uint64(u.depth[v] - 1 - p.common(place))
		}
	}
	return p
}

// common returns how many edges the word at a place has in common with one of
// its neighbours.
func (p *paths) common(place int) uint32 { return max(p.shared.at(place), p.after(place)) }

// after returns how many edges the word at a place has in common with the next.
func (p *paths) after(place int) uint32 {
	if place+1 == len(p.nodes) {
		return 0
	}
	return p.shared.at(place + 1)
}

// run is a run of two places or more in an order whose words have length edges in
// common, and no more. The sum of their values is the counter of that path.
type run struct {
	length uint32
	first  uint32 // place
	sum    pair
}

// eachRun calls ended for every run, with the place after it and the number of
// paths that it stands for: the paths that end at its nodes, and at no others.
//
// Open runs lie on a stack, each within the one below it and longer. A run that
// ends counts for all lengths over the length of the run around it: those paths end
// at the same nodes.
func (p *paths) eachRun(x values, ended func(r run, end uint32, paths uint64)) {
	open := []run{{}}
	for place := 1; place < len(p.nodes); place++ {
		shared, value := p.shared.at(place), x.at(p.compressedAt[place])
		open = closeRuns(open, shared, uint32(place), ended)
		if after := p.after(place); after > shared {
			open = append(open, run{after, uint32(place), value})
			continue
		}
		top := &open[len(open)-1]
		top.sum = top.sum.add(value)
	}
	closeRuns(open, 0, uint32(len(p.nodes)), ended)
}

// closeRuns ends the runs longer than shared. If the run around them is shorter
// than shared, a run of that length opens around them.
func closeRuns(open []run, shared, end uint32, ended func(run, uint32, uint64)) []run {
	for {
		top := &open[len(open)-1]
		if top.length <= shared {
			return open
		}
		around := &open[len(open)-2]
		if around.length < shared {
			ended(*top, end, uint64(top.length-shared))
			top.length = shared
			return open
		}
		ended(*top, end, uint64(top.length-around.length))
		around.sum = around.sum.add(top.sum)
		open = open[:len(open)-1]
	}
}
