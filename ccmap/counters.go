package ccmap

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"unsafe"
)

// Counters are the totals of a node or of a view. They are never negative, and
// stay at the largest int64 instead of overflowing.
type Counters struct {
	Samples     int64 // how often it was sampled
	Time        int64 // that these samples stand for, in the profile's [Unit]: ns of CPU time, if no unit is given
	Activations int64 // calls seen: exact, or a lower bound ([Snapshot.ActivationsExact])
}

// Counter is one of the [Counters]. A loop over all of them, from 0 to NumCounters, serves
// a further counter as well.
type Counter uint8

const (
	CounterSamples Counter = iota
	CounterTime
	CounterActivations

	NumCounters // how many there are
)

// counterTable describes each counter to formats and comparisons.
var counterTable = [NumCounters]struct {
	name, key string
	sampled   bool
}{
	CounterSamples:     {name: "samples", key: "samples", sampled: true},
	CounterTime:        {name: "time", key: "time_ns", sampled: true},
	CounterActivations: {name: "activations", key: "activations"},
}

// Of returns where the counter is in c.
func (k Counter) Of(c *Counters) *int64 {
	switch k {
	case CounterSamples:
		return &c.Samples
	case CounterActivations:
		return &c.Activations
	}
	return &c.Time
}

// String returns the name of the counter, for example "samples".
func (k Counter) String() string { return counterTable[k].name }

// Key returns the name of the counter in documents, for example "time_ns".
func (k Counter) Key() string { return counterTable[k].key }

// Sampled reports whether samples count here. Such a counter includes the callees, and has a
// window. The other counters count calls.
func (k Counter) Sampled() bool { return counterTable[k].sampled }

// Unit returns the unit of the counter in a profile whose weights have the given unit.
func (k Counter) Unit(weight Unit) Unit {
	if k == CounterTime {
		return weight
	}
	return Unit{k.String(), "count"}
}

// Add returns the sum of two counters.
func (c Counters) Add(o Counters) Counters {
	return Counters{
		Samples:     addSaturated(c.Samples, o.Samples),
		Time:        addSaturated(c.Time, o.Time),
		Activations: addSaturated(c.Activations, o.Activations),
	}
}

// WithCalls returns c with the calls that o counts: the counters that are not of samples.
func (c Counters) WithCalls(o Counters) Counters {
	for k := range NumCounters {
		if !k.Sampled() {
			*k.Of(&c) = *k.Of(&o)
		}
	}
	return c
}

// IsZero reports whether nothing was counted.
func (c Counters) IsZero() bool { return c == Counters{} }

// IsNegative reports whether a counter is negative: c is not of a map.
func (c Counters) IsNegative() bool { return c.Samples|c.Time|c.Activations < 0 }

// Compare orders by the first counter that differs.
func (c Counters) Compare(o Counters) int {
	for k := range NumCounters {
		if order := cmp.Compare(*k.Of(&c), *k.Of(&o)); order != 0 {
			return order
		}
	}
	return 0
}

// least returns the smaller of the samples, and the smaller of the times.
func (c Counters) least(o Counters) Counters {
	return Counters{Samples: min(c.Samples, o.Samples), Time: min(c.Time, o.Time)}
}

// addSaturated adds two counts that are not negative.
func addSaturated(a, b int64) int64 {
	s := a + b
	return (s | s>>63) & math.MaxInt64
}

// span is the samples and the time at and below a node.
type span struct{ samples, time int64 }

func (s *span) add(o span) {
	s.samples += o.samples
	s.time += o.time
}

// saturate adds counts, up to the largest int64. Negative counts are taken as 0.
func (s *span) saturate(c Counters) {
	s.samples = addSaturated(s.samples, max(c.Samples, 0))
	s.time = addSaturated(s.time, max(c.Time, 0))
}

// of returns the counters of a node with the samples and time at and below it.
func (s span) of(self Counters) Counters {
	self.Samples, self.Time = s.samples, s.time
	return self
}

func (s span) counters() Counters { return Counters{Samples: s.samples, Time: s.time} }

// columns are the counters of all nodes, 16 bytes a node.
//
// They are kept in chunks that are copied on write: a snapshot takes only the
// pointers (freeze), and the writer copies a chunk before its first write after
// that. So no reader sees a write, and the cost of a snapshot is in proportion to
// the chunks that changed since the last one.
//
// The sum over all nodes does not overflow: the map ensures that.
//
// Samples and activations are 32 bits wide. A count that does not fit moves to the
// wide map, and the column goes on from 0: a count is the sum of the two.
type columns struct {
	chunks []counterChunk
	epoch  uint64 // snapshots taken; a chunk of an earlier epoch is shared with a snapshot

	wide      map[NodeID]Counters // nil until a column overflows
	wideEpoch uint64
}

// counterChunk has its epoch beside the pointer. So counting touches only the cell,
// and the cells fill a size class of Go's allocator.
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

// writable returns the cell of n. It first copies the chunk if a snapshot shares it.
func (c *columns) writable(n NodeID) *cell { return &c.writableChunk(n)[n&chunkMask] }

func (c *columns) writableChunk(n NodeID) *[chunkLen]cell {
	k := &c.chunks[n>>chunkBits]
	if k.epoch != c.epoch {
		k.own(c.epoch)
	}
	return k.cells
}

// own replaces the cells by a copy, which belongs to the epoch.
func (k *counterChunk) own(epoch uint64) {
	cells := *k.cells
	k.epoch, k.cells = epoch, &cells
}

// addActivations counts one call of node n and of each of its ancestors, until it has counted the calls
// or an ancestor lies in another chunk. It returns that ancestor and the calls left.
func (c *columns) addActivations(all *nodes, n NodeID, calls int) (NodeID, int) {
	cells, chunk, first := c.writableChunk(n), all.chunks[n>>chunkBits], n&^chunkMask
	for i := n & chunkMask; calls > 0; calls-- {
		k := &cells[i&chunkMask]
		if k.activations++; k.activations == 0 {
			c.spill(first+i, Counters{Activations: 1 << 32})
		}
		// Nearly always the parent is the node before. The processor guesses that, and goes on
		// without waiting for memory.
		switch parent := chunk[i&chunkMask].parent; {
		case parent+1 == first+i && i > 0:
			i--
		case parent < first:
			return parent, calls - 1
		default:
			i = parent - first
		}
	}
	return 0, 0
}

// addSamples adds samples and their time, which is not negative.
func (c *columns) addSamples(n NodeID, samples uint32, time int64) {
	k := c.writable(n)
	k.time += time
	if k.samples += samples; k.samples < samples {
		c.spill(n, Counters{Samples: 1 << 32})
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

// addNarrow adds d to the cell. If the sum does not fit, it empties the cell and
// returns the sum.
func addNarrow(cell *uint32, d int64) int64 {
	sum := int64(*cell) + d
	if sum <= math.MaxUint32 {
		*cell = uint32(sum)
		return 0
	}
	*cell = 0
	return sum
}

// spill adds counts to the wide map, which it first copies if a snapshot shares it.
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

// from returns the cells from n up to end that lie in the chunk of n.
func (c *columns) from(n, end NodeID) []cell {
	first := n & chunkMask
	return c.chunks[n>>chunkBits].cells[first:min(first+end-n, chunkLen)]
}

// at returns the counters of n.
func (c *columns) at(n NodeID) Counters { return c.counters(n, c.cell(n)) }

// counters returns the counters of n, whose cell is given.
func (c *columns) counters(n NodeID, k *cell) Counters {
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
