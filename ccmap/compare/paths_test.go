package compare

import (
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"pgregory.net/rapid"
)

func TestMinima(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		m, plain := newMinima(n), slices.Repeat([]uint32{unknown}, n)
		for range rapid.IntRange(0, 50).Draw(t, "entries") {
			i := rapid.IntRange(0, n-1).Draw(t, "entry")
			v := min(plain[i], rapid.Uint32Range(0, 20).Draw(t, "value"))
			m.lower(i, v)
			plain[i] = v
		}
		for range 20 {
			lo := rapid.IntRange(0, n-1).Draw(t, "lo")
			hi := rapid.IntRange(lo+1, n).Draw(t, "hi")
			if got, want := m.least(lo, hi), slices.Min(plain[lo:hi]); got != want {
				t.Fatalf("least of %d entries from %d to %d: %d, want %d", n, lo, hi, got, want)
			}
		}
	})
}

// drawUnion draws a trie with few edges, hence with many common words, and
// sometimes deep.
func drawUnion(t *rapid.T) *union {
	u := newUnion()
	callees := []ccmap.MethodID{u.names.Intern(ccmap.Method{Name: "A"}), u.names.Intern(ccmap.Method{Name: "B"})}
	recent := rapid.IntRange(1, 60).Draw(t, "recent")
	for range rapid.IntRange(0, 200).Draw(t, "nodes") {
		parent := rapid.IntRange(max(0, u.trie.Len()-recent), u.trie.Len()-1).Draw(t, "parent")
		site := rapid.Uint32Range(0, 1).Draw(t, "site")
		u.trie.Child(ccmap.NodeID(parent), site, rapid.SampledFrom(callees).Draw(t, "callee"))
	}
	u.numberNodes()
	return u
}

// word returns the edges from a node upward, without the edge to the outermost frame.
func (u *union) word(v uint32) []uint32 {
	var word []uint32
	for ; u.depth[v] > 1; v = u.parent[v] {
		word = append(word, u.edge[v])
	}
	return word
}

func commonPrefix(a, b []uint32) (n uint32) {
	for int(n) < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func TestSortPaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u := drawUnion(t)
		o := sortPaths(u)
		want := []uint32{0}
		for v, depth := range u.depth {
			if depth > 1 {
				want = append(want, uint32(v))
			}
		}
		slices.SortFunc(want, func(v, w uint32) int { return slices.Compare(u.word(v), u.word(w)) })
		if !slices.Equal(o.nodes, want) {
			t.Fatalf("order %v, want %v", o.nodes, want)
		}
		for place := 1; place < len(want); place++ {
			shared := commonPrefix(u.word(want[place-1]), u.word(want[place]))
			if got := o.shared.at(place); got != shared {
				t.Errorf("place %d shares %d edges with the one before it, want %d", place, got, shared)
			}
		}
	})
}

// TestChildrenDiffer checks that no two children of a node have the same edge.
func TestChildrenDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u := drawUnion(t)
		type call struct{ parent, edge uint32 }
		seen := map[call]bool{}
		for v := 1; v < u.len(); v++ {
			key := call{u.parent[v], u.edge[v]}
			if seen[key] || u.edges[key.edge].caller != u.edges[u.edge[key.parent]].callee {
				t.Errorf("node %d is the second child of %d by edge %+v, or its caller is another", v, key.parent, u.edges[key.edge])
			}
			seen[key] = true
		}
	})
}
