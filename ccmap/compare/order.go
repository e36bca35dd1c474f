package compare

import "slices"

// order holds the nodes of a union sorted by their path, read upward: as the
// word of edges from the node to the outermost frame. The edge from nobody to
// the outermost frame is left out, for it says nothing that the edge below it
// does not, and with it the nodes of outermost frames, whose word is empty.
//
// The nodes at which one path ends, in whatever context, are neighbours.
type order struct {
	// nodes from place 1; place 0 is node 0, which stands for the empty word.
	nodes []uint32
	// shared has, by place, how many edges the word has in common with the one
	// before it. It is 0 at places 0 and 1, and where the first edge changes.
	shared minima
}

// sortPaths sorts by prefix doubling (Karp, Miller and Rosenberg; Manber and
// Myers). When words are sorted by their first h edges, then the rank of the
// h-th ancestor, which is the rank of the rest of the word, sorts them by 2h.
// As many rounds as the depth has binary digits suffice, recursion or not;
// refining by one edge after another would take as many as the depth.
func sortPaths(u *union) order {
	s := newSorter(u)
	for h := uint32(1); s.refine(h); h *= 2 {
		s.climb()
	}
	return s.order
}

// sorter is an order in the making: words are sorted by their first h edges.
type sorter struct {
	order
	// rank of a node: the first place of those that it cannot be told from yet.
	// Empty words have rank 0.
	rank     []uint32
	ancestor []uint32 // by node: the one h edges up; 0 where there is none
	keys     []uint64 // room for the largest group
}

// newSorter sorts the words by their first edge: h is 1.
func newSorter(u *union) *sorter {
	first := firstPlaces(u)
	places := first[len(u.edges)]
	s := &sorter{
		order:    order{make([]uint32, places), newMinima(int(places))},
		rank:     make([]uint32, u.len()),
		ancestor: slices.Clone(u.parent),
		keys:     make([]uint64, 0, largestGroup(first)),
	}
	s.shared.lower(0, 0)
	next := slices.Clone(first)
	for v, e := range u.edge {
		if u.edges[e].outermost() {
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
// it, and behind the last edge the number of places.
func firstPlaces(u *union) []uint32 {
	first := make([]uint32, len(u.edges)+1)
	first[0] = 1
	for _, e := range u.edge {
		if !u.edges[e].outermost() {
			first[e+1]++
		}
	}
	for e := range u.edges {
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

// climb doubles the distance of the ancestors: from the last node to the first,
// so that the entries of smaller nodes are still those of the old distance.
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

// refineGroup sorts the words of one rank by what follows their first h edges,
// and ranks them anew. That other ranks were refined before in this round does
// no harm: they sort as before, and further.
//
// Neighbours of different rank now share h edges and what the rests share,
// which is the least that is shared between the places of the rests.
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
