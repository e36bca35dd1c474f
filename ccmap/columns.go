package ccmap

import (
	"maps"
	"math"
	"slices"
	"unsafe"
)

// columns are the counters of all nodes, 16 bytes a node.
//
// They are kept in chunks that are copied on write: a snapshot takes the
// pointers only (freeze), and the writer copies a chunk before it first writes
// to it afterwards. So no reader sees a write, and a snapshot costs what has
// changed since the last one, not what the map holds.
//
// The sum over all nodes does not overflow: the map sees to it.
//
// Samples and activations are 32 bits wide. What does not fit moves to the wide
// map, and the column goes on from 0: a count is the sum of the two.
type columns struct {
	chunks []counterChunk
	epoch  uint64 // snapshots taken; what is of an earlier epoch is shared with one

	wide      map[NodeID]Counters // nil until a column overflows
	wideEpoch uint64
}

// counterChunk has its epoch beside the pointer, so that to count touches the
// cell only, and so that the cells fill a size class of Go's allocator.
type counterChunk struct {
	epoch uint64
	cells *[chunkLen]cell
}

type cell struct {
	time        int64
	samples     uint32
	activations uint32
}

// grow adds a chunk of zeros.
func (c *columns) grow() {
	c.chunks = append(c.chunks, counterChunk{c.epoch, new([chunkLen]cell)})
}

// freeze returns the columns as they are, for readers; c remains the writer's.
func (c *columns) freeze() columns {
	frozen := *c
	frozen.chunks = slices.Clone(c.chunks)
	c.epoch++
	return frozen
}

// writable returns the cell of n, in a copy of its chunk if a snapshot shares
// that.
func (c *columns) writable(n NodeID) *cell {
	k := &c.chunks[n>>chunkBits]
	if k.epoch != c.epoch {
		k.own(c.epoch)
	}
	return &k.cells[n&chunkMask]
}

// own makes the chunk a copy of itself, of an epoch of its own.
func (k *counterChunk) own(epoch uint64) {
	cells := *k.cells
	k.epoch, k.cells = epoch, &cells
}

// addActivation counts one call.
func (c *columns) addActivation(n NodeID) {
	k := c.writable(n)
	if k.activations++; k.activations == 0 {
		c.spill(n, Counters{Activations: 1 << 32})
	}
}

// add adds counts that are not negative.
func (c *columns) add(n NodeID, d Counters) {
	k := c.writable(n)
	k.time += d.Time
	over := Counters{
		Samples:     addNarrow(&k.samples, d.Samples),
		Activations: addNarrow(&k.activations, d.Activations),
	}
	if !over.IsZero() {
		c.spill(n, over)
	}
}

// addNarrow adds d to the cell and returns what the cell cannot hold.
func addNarrow(cell *uint32, d int64) int64 {
	sum := int64(*cell) + d
	if sum <= math.MaxUint32 {
		*cell = uint32(sum)
		return 0
	}
	*cell = 0
	return sum
}

// spill adds counts to the wide map, copied if a snapshot shares it.
func (c *columns) spill(n NodeID, d Counters) {
	switch {
	case c.wide == nil:
		c.wide = make(map[NodeID]Counters)
	case c.wideEpoch != c.epoch:
		c.wide = maps.Clone(c.wide)
	}
	c.wideEpoch = c.epoch
	c.wide[n] = c.wide[n].Add(d)
}

// cell returns the cell of n, for reading.
func (c *columns) cell(n NodeID) *cell { return &c.chunks[n>>chunkBits].cells[n&chunkMask] }

// from returns the cells from n on that lie in one chunk, up to end.
func (c *columns) from(n, end NodeID) []cell {
	first := n & chunkMask
	return c.chunks[n>>chunkBits].cells[first:min(first+end-n, chunkLen)]
}

// at returns the counters of n.
func (c *columns) at(n NodeID) Counters {
	k := c.cell(n)
	v := Counters{
		Samples:     int64(k.samples),
		Time:        k.time,
		Activations: int64(k.activations),
	}
	if c.wide != nil {
		v = v.Add(c.wide[n])
	}
	return v
}

// bytes returns the memory held.
func (c *columns) bytes() int64 {
	const wideEntry = int64(unsafe.Sizeof(NodeID(0))+unsafe.Sizeof(Counters{})) * 2
	return int64(len(c.chunks))*int64(unsafe.Sizeof([chunkLen]cell{})) +
		int64(cap(c.chunks))*int64(unsafe.Sizeof(c.chunks[0])) +
		int64(len(c.wide))*wideEntry
}
