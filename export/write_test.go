package export

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// sortedEntries returns the entries of a canonical form as a plain walk finds them.
func sortedEntries(c *canonical) (entries []entry) {
	children := make([][]ccmap.Node, c.snapshot.Len())
	for n := range c.childNodes() {
		children[n.Parent] = append(children[n.Parent], n)
	}
	var visit func(n ccmap.NodeID, depth int)
	visit = func(n ccmap.NodeID, depth int) {
		index := len(entries) // of the node: the root has no entry
		slices.SortFunc(children[n], func(a, b ccmap.Node) int { return cmp.Compare(c.sortKey(a.ID), c.sortKey(b.ID)) })
		for _, child := range children[n] {
			e := entry{parent: index, depth: depth}
			entries = append(entries, *c.entry(&e, child.ID))
			visit(child.ID, depth+1)
		}
	}
	visit(root, 0)
	return entries
}

// The entries of a canonical form are its nodes in preorder, siblings sorted.
func TestEntriesAreInPreorder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCanonical(drawPruned(t, build).Snapshot(), XML)
		var got []entry
		frames := int64(0)
		for e := range c.entries() {
			got = append(got, *e)
			switch {
			case e.Self.IsZero():
			case e.IsPosition():
				frames += int64(e.depth)
			default:
				frames += int64(e.depth) + 1
			}
		}
		if diff := gocmp.Diff(sortedEntries(c), got, gocmp.AllowUnexported(entry{})); diff != "" {
			t.Fatalf("(-plain walk +entries):\n%s", diff)
		}
		if c.frames != frames {
			t.Fatalf("%d frames, want %d", c.frames, frames)
		}
	})
}
