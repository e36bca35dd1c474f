package ccmap

import "testing"

// TestTableCollisions finds nodes apart whose tags are all the same: a tag is no
// proof.
func TestTableCollisions(t *testing.T) {
	t.Parallel()
	var all nodes
	all.grow()
	all.len = chunkLen - 1
	table := table{seed: 1}
	table.reset(0)
	for n := NodeID(1); n < 100; n++ {
		*all.at(n) = node{offset: uint32(n), method: 7, parent: 0}
	}
	for n := NodeID(1); n < 11; n++ {
		table.parts[0].place(newSlot(table.tag(*all.at(1)), n+20)) // others, under the tag of node 1
	}
	table.insert(1, *all.at(1))
	if got := table.find(&all, *all.at(1)); got != 1 {
		t.Errorf("found node %d, want 1", got)
	}
}

// TestTableGrows fills a table at its end, grows it until it is split and beyond,
// and finds everything.
func TestTableGrows(t *testing.T) {
	t.Parallel()
	const count = 4 * splitSlots
	var all nodes
	for range count/chunkLen + 1 {
		all.grow()
	}
	table := table{seed: 1}
	table.reset(0)
	for n := NodeID(2); n < count; n++ {
		*all.at(n) = node{offset: uint32(n), parent: n / 2}
		table.insert(n, *all.at(n))
		if table.used*maxLoadDen > table.slots*maxLoadNum {
			t.Fatalf("%d of %d slots are used", table.used, table.slots)
		}
		if got := table.find(&all, *all.at(n)); got != n {
			t.Fatalf("found node %d, want %d", got, n)
		}
	}
	for i, p := range table.parts {
		if len(p.slots) > 2*table.slots/maxParts {
			t.Errorf("part %d has %d slots of %d", i, len(p.slots), table.slots)
		}
	}
	for n := NodeID(2); n < count; n++ {
		if got := table.find(&all, *all.at(n)); got != n {
			t.Fatalf("found node %d, want %d", got, n)
		}
		if got := table.find(&all, node{offset: uint32(n), parent: n}); got != 0 {
			t.Fatalf("found node %d that is none", got)
		}
	}
}

// TestTableSpreads checks that regular nodes, as programs have them, do not pile
// up in the table.
func TestTableSpreads(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		table := table{seed: seed + 1}
		table.reset(0)
		n := NodeID(0)
		for parent := range NodeID(100) {
			for offset := range uint32(100) {
				n++
				table.insert(n, node{offset, MethodID(offset % 10), parent * 64})
			}
		}
		far := 0
		for _, p := range table.parts {
			for i, e := range p.slots {
				if e != 0 {
					far += (i - p.start(e.tag()) + len(p.slots)) % len(p.slots)
				}
			}
		}
		// Linear probing is 0.9 slots off on average at this load, 1.5 at 3/4.
		if mean := float64(far) / float64(table.used); mean > 1.5 {
			t.Errorf("seed %d: entries are %.1f slots off on average", seed, mean)
		}
	}
}

// TestTableOfSiblings fills a table with the call sites of one method, as in a
// large generated one. For every seed and parent's id, no part of it gets far more
// than its share, and no part overflows when it is split.
func TestTableOfSiblings(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		for _, parent := range []NodeID{0, 1, 2, 63, 1<<12 - 1, 1<<20 - 1} {
			table := table{seed: seed * 0x8000_0001_0000_0001}
			table.reset(0)
			for n := NodeID(1); n < 3*splitSlots; n++ {
				table.insert(n, node{offset: uint32(n), method: 1, parent: parent})
			}
			share := table.used / len(table.parts)
			for i, p := range table.parts {
				if p.used > 2*share {
					t.Fatalf("seed %d, parent %d: part %d has %d of %d entries", seed, parent, i, p.used, table.used)
				}
			}
		}
	}
}

// TestTableSplitsUnevenly splits a table whose entries all belong to one part.
func TestTableSplitsUnevenly(t *testing.T) {
	t.Parallel()
	table := table{parts: []part{newPart(splitSlots)}, slots: splitSlots}
	for n := NodeID(1); n <= splitSlots*3/4; n++ {
		table.place(newSlot(uint32(n)*maxParts, n))
	}
	table.split()
	if used := table.parts[0].used; used != splitSlots*3/4 {
		t.Errorf("%d entries, want %d", used, splitSlots*3/4)
	}
	slots := 0
	for _, p := range table.parts {
		slots += len(p.slots)
	}
	if slots != table.slots {
		t.Errorf("%d slots, counted as %d", slots, table.slots)
	}
}
