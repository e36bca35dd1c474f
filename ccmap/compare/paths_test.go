package compare

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"

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
	u := newUnion(1)
	recent := rapid.IntRange(1, 60).Draw(t, "recent")
	for range rapid.IntRange(0, 200).Draw(t, "nodes") {
		parent := rapid.IntRange(max(0, u.len()-recent), u.len()-1).Draw(t, "parent")
		site := uint32(0)
		if parent > 0 {
			site = rapid.Uint32Range(0, 1).Draw(t, "site")
		}
		u.child(uint32(parent), site, rapid.Uint32Range(0, 1).Draw(t, "callee"))
	}
	return u
}

// word returns the edges from a node upward, without the one from nobody.
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

// A node's word is its own: no two children of one node have the same edge.
func TestUnionChildIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u := drawUnion(t)
		for v := uint32(1); int(v) < u.len(); v++ {
			e := u.edges.Keys[u.edge[v]]
			if got := u.child(u.parent[v], e.Site, e.Callee); got != v {
				t.Errorf("node %d is found as %d", v, got)
			}
		}
	})
}

// drawWide draws numbers of all sizes, carries among them.
func drawWide() *rapid.Generator[wide] {
	word := rapid.OneOf(rapid.Just(uint64(0)), rapid.Just(uint64(math.MaxUint64)), rapid.Uint64())
	return rapid.Custom(func(t *rapid.T) wide {
		return wide{word.Draw(t, "hi"), word.Draw(t, "lo")}
	})
}

func TestWideIsBig(t *testing.T) {
	t.Parallel()
	modulus := new(big.Int).Lsh(big.NewInt(1), 128)
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawWide().Draw(t, "a"), drawWide().Draw(t, "b")
		c, d := drawWide().Draw(t, "c"), drawWide().Draw(t, "d")
		n := rapid.Uint64().Draw(t, "n")
		sum := new(big.Int).Add(a.big(), b.big())
		if got := a.add(b).big(); got.Cmp(sum.Mod(sum, modulus)) != 0 {
			t.Errorf("%v + %v = %v, want %v", a, b, got, sum)
		}
		sum.Mul(b.big(), new(big.Int).SetUint64(n))
		sum.Add(sum, a.big())
		if got := a.addTimes(b, n).big(); got.Cmp(sum.Mod(sum, modulus)) != 0 {
			t.Errorf("%v + %v·%v = %v, want %v", a, b, n, got, sum)
		}
		if got, want := a.compare(b), a.big().Cmp(b.big()); got != want {
			t.Errorf("compare %v with %v: %v, want %v", a, b, got, want)
		}
		left, right := new(big.Int).Mul(a.big(), b.big()), new(big.Int).Mul(c.big(), d.big())
		if got, want := productAtMost(a, b, c, d), left.Cmp(right) <= 0; got != want {
			t.Errorf("%v·%v ≤ %v·%v is %v, want %v", a, b, c, d, got, want)
		}
		if !productAtMost(a, b, b, a) {
			t.Errorf("%v·%v is not at most itself", a, b)
		}
		small, smaller := wide{lo: a.lo}, wide{lo: b.lo}
		if got, want := productAtMost(small, small, smaller, smaller), cmp.Compare(a.lo, b.lo) <= 0; got != want {
			t.Errorf("%v² ≤ %v² is %v, want %v", a.lo, b.lo, got, want)
		}
		f, _ := new(big.Float).SetInt(a.big()).Float64()
		if got := a.float(); math.Abs(got-f) > f*0x1p-52 {
			t.Errorf("%v as a float64: %v, want %v", a, got, f)
		}
	})
}
