package hotspot

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// neighbours reads many small pieces of a heap, and those that are near to each other at once: for the kernel a range
// costs as much as 2 KiB more of one. Objects that one thread has made one after the other are neighbours, and stay so
// when a collection moves them. It is reused, and belongs to one goroutine.
type neighbours struct {
	pieces []piece
	from   []uint64
	ranges [][]byte
	bytes  []byte
	found  []object
}

// piece is what is wanted: so many bytes from an address on.
type piece struct {
	at   uint64
	size uint32
	of   uint32 // its index
}

// Bounds of a range.
const (
	widestGap = 2 << 10  // bytes between two pieces of it
	mostRange = 64 << 10 // bytes
)

// read returns the pieces, until the next call; none of one that cannot be read, or has no size.
func (n *neighbours) read(memory vmstructs.Memory, addrs []uint64, size func(i int) int) []object {
	n.pieces = n.pieces[:0]
	for i, at := range addrs {
		if want := size(i); want > 0 && classes.Plausible(at) {
			n.pieces = append(n.pieces, piece{at, uint32(want), uint32(i)})
		}
	}
	byAddress := func(a, b piece) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(n.pieces, byAddress) {
		slices.SortFunc(n.pieces, byAddress)
	}
	n.found = slices.Grow(n.found[:0], len(addrs))[:len(addrs)]
	clear(n.found)
	n.join()
	classes.ReadMany(memory, n.from, n.ranges)
	n.share(memory)
	return n.found
}

// join makes ranges of the pieces, and gives them room.
func (n *neighbours) join() {
	n.from, n.ranges = n.from[:0], n.ranges[:0]
	var sizes []int
	total := 0
	for _, p := range n.pieces {
		last := len(n.from) - 1
		if last >= 0 && p.at <= n.from[last]+uint64(sizes[last])+widestGap && p.at+uint64(p.size)-n.from[last] <= mostRange {
			more := max(int(p.at-n.from[last])+int(p.size)-sizes[last], 0)
			sizes[last] += more
			total += more
			continue
		}
		n.from, sizes = append(n.from, p.at), append(sizes, int(p.size))
		total += int(p.size)
	}
	n.bytes = slices.Grow(n.bytes[:0], total)[:total]
	for at, i := 0, 0; i < len(sizes); i++ {
		n.ranges = append(n.ranges, n.bytes[at:at+sizes[i]])
		at += sizes[i]
	}
}

// share gives each piece its part of a range. What is in a range that cannot be read is read alone.
func (n *neighbours) share(memory vmstructs.Memory) {
	at := 0
	for _, p := range n.pieces {
		for at+1 < len(n.from) && n.from[at+1] <= p.at {
			at++
		}
		if n.ranges[at] != nil {
			begin := p.at - n.from[at]
			n.found[p.of] = n.ranges[at][begin:][:p.size:p.size]
			continue
		}
		if alone := make([]byte, p.size); memory.Read(p.at, alone) == nil {
			n.found[p.of] = alone
		}
	}
}
