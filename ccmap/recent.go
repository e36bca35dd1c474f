package ccmap

import (
	"math"
	"slices"
	"unsafe"
)

// recent are the counters of the window: every sample weighs less the longer ago
// it was, by a factor of e for every time constant. They are 8 bytes a node.
//
// No cell is touched to make it weigh less. Instead a sample counts more the
// later it comes (forward decay; Cormode, Shkapenyuk, Srivastava and Xu, ICDE
// 2009): by 2^(t/half-life), t from the first sample on. That is scale·2^octave:
// the cells of a chunk hold what was counted over 2^octave of the chunk, which
// becomes the clock's when the chunk is next written to. So no number grows with
// the time that the map has run, and no pass over all cells is ever needed.
//
// The chunks are copied on write, as those of [columns] are.
type recent struct {
	clock
	chunks []recentChunk
	epoch  uint64
	noise  uint64 // state of the generator that rounding uses
}

type recentChunk struct {
	epoch  uint64
	octave int64
	cells  *[chunkLen]recentCell
}

type recentCell struct{ samples, time float32 }

// weights are samples and ns that have decayed.
type weights struct{ samples, time float64 }

// weights returns the counts as those of now.
func (c Counters) weights() weights {
	return weights{float64(max(c.Samples, 0)), float64(max(c.Time, 0))}
}

func (w *weights) add(o weights) {
	w.samples += o.samples
	w.time += o.time
}

func (w weights) times(f float64) weights { return weights{w.samples * f, w.time * f} }

// on reports whether there is a window.
func (r *recent) on() bool { return r.window != 0 }

// grow adds a chunk of zeros.
func (r *recent) grow() {
	r.chunks = append(r.chunks, recentChunk{r.epoch, r.octave, new([chunkLen]recentCell)})
}

// freeze returns the counters as they are, for readers; r remains the writer's.
func (r *recent) freeze() recent {
	frozen := *r
	frozen.chunks = slices.Clone(r.chunks)
	r.epoch++
	return frozen
}

// add counts samples and time of now.
func (r *recent) add(n NodeID, w weights) { r.addScaled(n, w.times(r.scale)) }

// addScaled counts what is in the unit of the clock's octave.
func (r *recent) addScaled(n NodeID, w weights) {
	k := &r.chunks[n>>chunkBits]
	if k.epoch != r.epoch || k.octave != r.octave {
		k.renew(r.epoch, r.octave)
	}
	c := &k.cells[n&chunkMask]
	c.samples = r.round(float64(c.samples) + w.samples)
	c.time = r.round(float64(c.time) + w.time)
}

// renew takes the chunk to another octave, in a copy if a snapshot shares it.
func (k *recentChunk) renew(epoch uint64, octave int64) {
	cells := k.cells
	if k.epoch != epoch {
		cells = new([chunkLen]recentCell)
	}
	f := float32(octaves(k.octave - octave))
	for i, c := range k.cells {
		cells[i] = recentCell{c.samples * f, c.time * f}
	}
	*k = recentChunk{epoch, octave, cells}
}

// round returns one of the two float32 beside v, the nearer one more likely, so
// that the sum of many counts is right on average: a cell that holds ten million
// samples would otherwise take in one more as none, or as two.
func (r *recent) round(v float64) float32 {
	const narrow = 1<<29 - 1 // the bits of a float64 that a float32 has not
	r.noise = r.noise*6364136223846793005 + 1442695040888963407
	return float32(math.Float64frombits((math.Float64bits(v) + r.noise>>35) &^ narrow))
}

// at returns what node n weighs now.
func (r *recent) at(n NodeID) weights {
	return r.inOctave(n).times(1 / r.scale)
}

// inOctave returns what node n weighs in the unit of the clock's octave.
func (r *recent) inOctave(n NodeID) weights {
	k := &r.chunks[n>>chunkBits]
	c := k.cells[n&chunkMask]
	return weights{float64(c.samples), float64(c.time)}.times(octaves(k.octave - r.octave))
}

// bytes returns the memory held.
func (r *recent) bytes() int64 {
	return int64(len(r.chunks))*int64(unsafe.Sizeof([chunkLen]recentCell{})) +
		int64(cap(r.chunks))*int64(unsafe.Sizeof(recentChunk{}))
}
