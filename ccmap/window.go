package ccmap

import (
	"math"
	"math/bits"
	"slices"
	"time"
	"unsafe"
)

// SetWindow sets the time constant of the recent counters, which all begin at 0;
// 0 drops them. It is for decoders: other callers use Options.
func (m *Map) SetWindow(window time.Duration) {
	m.countDue()
	m.recent = recent{clock: newClock(window), epoch: m.recent.epoch}
	m.meta.Window = m.recent.window
	m.evicted.forgetRecent()
	for range m.nodes.chunks {
		if m.recent.on() {
			m.recent.grow()
		}
	}
}

// Advance moves the window's clock to a time, CLOCK_MONOTONIC ns, like
// [Sample].Time. The clock never goes backwards. Folding moves it too.
func (m *Map) Advance(now int64) {
	if m.recent.on() {
		m.countDue()
		m.recent.advance(now)
	}
}

// AddRecent adds to the recent samples and time of a node, which must exist, as if
// they were counted now. It is for decoders, after Add: a node without samples and
// time has no recent ones. Without a window it does nothing.
func (m *Map) AddRecent(n NodeID, c Counters) {
	m.addRecent(n, c.weights())
}

func (m *Map) addRecent(n NodeID, w weights) {
	m.countDue()
	if self := m.columns.at(n); m.recent.on() && (self.Samples != 0 || self.Time != 0) {
		m.recent.add(n, w)
	}
}

// Recent returns the window as a snapshot, and whether there is one. It has the
// same nodes. Their samples and time are the recent ones, rounded to whole numbers
// such that their sum is right; their activations are 0. Its points are the points of
// the whole run. It has no window of its own. All callers get the same snapshot.
func (s *Snapshot) Recent() (*Snapshot, bool) {
	if !s.recent.on() {
		return nil, false
	}
	s.window.once.Do(func() { s.window.Snapshot = s.recentSnapshot() })
	return s.window.Snapshot, true
}

func (s *Snapshot) recentSnapshot() *Snapshot {
	r := &Snapshot{nodes: s.nodes, points: s.points, names: s.names, meta: s.meta, inexact: s.inexact}
	r.meta.Settled = Settled{} // it describes the whole run
	r.recent.clock = newClock(0)
	r.columns, r.total = s.recent.columns(s.nodes.len)
	r.evicted = s.removals().recent()
	return r
}

// recent are the counters of the window: the weight of every sample falls with its
// age, by a factor of e for every time constant. They are 8 bytes a node.
//
// No cell is touched to make it weigh less. Instead a sample counts more the
// later it comes (forward decay; Cormode, Shkapenyuk, Srivastava and Xu, ICDE
// 2009): by 2^(t/half-life), t from the first sample on. That is scale·2^octave.
// The cells of a chunk hold counts divided by 2^octave of the chunk. The chunk takes
// the clock's octave when it is next written to. So no number grows with the time
// that the map has run, and no pass over all cells is ever needed.
//
// The chunks are copied on write, like the chunks of [columns].
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

// addScaled counts weights that are in the unit of the clock's octave.
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
// that the sum of many counts is right on average. Otherwise a cell that holds ten
// million samples would count one more sample as none, or as two.
func (r *recent) round(v float64) float32 {
	const narrow = 1<<29 - 1 // the bits of a float64 that a float32 lacks
	r.noise = r.noise*6364136223846793005 + 1442695040888963407
	return float32(math.Float64frombits((math.Float64bits(v) + r.noise>>35) &^ narrow))
}

// at returns the weights of node n now.
func (r *recent) at(n NodeID) weights {
	return r.inOctave(n).times(1 / r.scale)
}

// inOctave returns the weights of node n in the unit of the clock's octave.
func (r *recent) inOctave(n NodeID) weights {
	k := &r.chunks[n>>chunkBits]
	c := k.cells[n&chunkMask]
	return weights{float64(c.samples), float64(c.time)}.times(octaves(k.octave - r.octave))
}

// columns returns the weights of now in whole numbers, and their sum.
func (r *recent) columns(nodes uint32) (c columns, total Counters) {
	var sum remainderRounding
	for range r.chunks {
		c.grow()
	}
	for n := range NodeID(nodes) {
		w := sum.round(r.at(n))
		w.Samples, w.Time = admit(&total.Samples, w.Samples), admit(&total.Time, w.Time)
		c.add(n, w)
	}
	return c, total
}

// bytes returns the memory held.
func (r *recent) bytes() int64 {
	return int64(len(r.chunks))*int64(unsafe.Sizeof([chunkLen]recentCell{})) +
		int64(cap(r.chunks))*int64(unsafe.Sizeof(recentChunk{}))
}

// weights are samples and ns that have decayed.
type weights struct{ samples, time float64 }

// weights returns the counts as weights of now.
func (c Counters) weights() weights {
	return weights{float64(max(c.Samples, 0)), float64(max(c.Time, 0))}
}

func (w *weights) add(o weights) {
	w.samples += o.samples
	w.time += o.time
}

func (w weights) times(f float64) weights { return weights{w.samples * f, w.time * f} }

// clock turns times into weights. Its scale lies in [1, 2).
type clock struct {
	window  time.Duration
	first   int64 // ns; a sample of this time weighs 1
	now     int64 // ns; never before first
	started bool
	octave  int64
	scale   float64
}

// minWindow is the shortest time constant: octaves of a shorter one could not be
// counted.
const minWindow = time.Millisecond

// newClock returns the clock of a window, stopped.
func newClock(window time.Duration) clock {
	if window > 0 {
		window = max(window, minWindow)
	}
	return clock{window: max(window, 0), scale: 1}
}

// advance sets the clock to a time, never backwards. The first time starts it.
func (c *clock) advance(now int64) {
	switch {
	case !c.started:
		c.started, c.first, c.now = true, now, now
		return
	case now <= c.now:
		return
	}
	c.now = now
	halfLife := float64(c.window) * math.Ln2
	x := float64(uint64(now)-uint64(c.first)) / halfLife
	whole := math.Floor(x)
	c.octave, c.scale = int64(whole), math.Exp2(x-whole)
}

// isBehind reports whether a sample advances the clock. Samples come by the microsecond, so the clock
// follows them in steps, too small to matter.
func (c *clock) isBehind(now int64) bool {
	const steps = 1 << 14 // to a window
	return c.window != 0 && (!c.started || now > c.now && uint64(now)-uint64(c.now) >= uint64(c.window)/steps)
}

// fade returns the weight now of 1, counted in a chunk of that octave.
func (c *clock) fade(octave int64) float64 { return octaves(octave-c.octave) / c.scale }

// octaves returns 2ⁿ for n ≤ 0; 0 where that is negligible.
func octaves(n int64) float64 {
	if n < -1000 {
		return 0
	}
	return math.Float64frombits(uint64(1023+n) << 52)
}

// remainderRounding rounds weights, one after the other, to counts that a float32
// can hold. So a profile that is written and read again has the same counts. It
// adds the remainder of each count to the next weight, so that the sum is right.
type remainderRounding struct{ remainder weights }

func (o *remainderRounding) round(w weights) Counters {
	return Counters{
		Samples: roundWithRemainder(w.samples, &o.remainder.samples),
		Time:    roundWithRemainder(w.time, &o.remainder.time),
	}
}

func roundWithRemainder(v float64, remainder *float64) int64 {
	if v == 0 {
		return 0
	}
	v += *remainder
	n := wholeFloat32(v)
	*remainder = v - float64(n)
	return n
}

// wholeFloat32 returns the nearest whole number to v, from 0, that
// a float32 can hold.
func wholeFloat32(v float64) int64 {
	const limit = 1<<63 - 1<<39 // the largest that fits
	if v >= limit {
		return limit
	}
	n := int64(max(v, 0) + 0.5)
	drop := max(bits.Len64(uint64(n))-24, 0)
	n = (n + (1<<drop)>>1) >> drop << drop
	return min(n, limit)
}
