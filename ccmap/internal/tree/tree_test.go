package tree

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawParents returns the parent of each node of a random tree.
func drawParents(t *rapid.T) []uint32 {
	parents := make([]uint32, rapid.IntRange(1, 200).Draw(t, "nodes"))
	for n := 1; n < len(parents); n++ {
		parents[n] = uint32(n - 1)
		if rapid.Bool().Draw(t, "branch") {
			parents[n] = uint32(rapid.IntRange(0, n-1).Draw(t, "parent"))
		}
	}
	return parents
}

// TestWalk compares a walk with a recursive one.
func TestWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parents := drawParents(t)
		links := NewLinks(len(parents))
		for n := len(parents) - 1; n > 0; n-- {
			links.Add(parents[n], uint32(n))
		}
		var want, got []int
		var visit func(n uint32)
		visit = func(n uint32) {
			children := 0
			for c := range parents {
				if c > 0 && parents[c] == n {
					children++
					want = append(want, c)
					visit(uint32(c))
					want = append(want, -c)
				}
			}
			if links.Leaf(n) != (children == 0) || len(slices.Collect(links.Children(n))) != children {
				t.Fatalf("node %d has %d children", n, children)
			}
		}
		visit(0)
		for n, entered := range links.Walk() {
			if entered {
				got = append(got, int(n))
			} else {
				got = append(got, -int(n))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("walked %v, want %v", got, want)
		}
	})
}

// TestPaths checks that nodes of one path follow each other, that paths hang at the
// ends of others, and that sums by path are the sums at and below their nodes.
func TestPaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parents := drawParents(t)
		self := make([]int, len(parents))
		paths := NewPaths(len(parents))
		for n := range parents {
			if rapid.IntRange(0, 3).Draw(t, "counts") == 0 {
				self[n] = 1 + n
				paths.End(uint32(n))
			}
			if n > 0 && parents[n] != uint32(n-1) {
				paths.Branch(uint32(n), parents[n])
			}
		}
		sums := make([]int, paths.Number())
		for n, parent := range parents {
			if n > 0 && parent != uint32(n-1) {
				paths.Hang(uint32(n), parent)
			}
			sums[paths.Of(uint32(n))] += self[n]
		}
		SumUp(paths.Above, sums, func(a *int, b int) { *a += b })
		for n := len(self) - 1; n > 0; n-- {
			self[parents[n]] += self[n]
		}
		for n, want := range self {
			if got := sums[paths.Of(uint32(n))]; got != want {
				t.Fatalf("node %d has the sum %d, want %d", n, got, want)
			}
		}
		ends := slices.Collect(paths.Ends())
		for p, end := range ends {
			if paths.Of(end) != uint32(p) || !paths.IsEnd(end) {
				t.Fatalf("path %d ends at node %d of path %d", p, end, paths.Of(end))
			}
		}
	})
}
