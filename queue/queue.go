package queue

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Options says how large a queue's rings are. The zero value is useful.
type Options struct {
	// RingWords is the size of each ring in words of 8 bytes, rounded up to a
	// power of two from 16 to 1<<24; 0 means 8,192. A sample takes 7 words and
	// one for each frame, so a ring of the default size holds 61 samples of 127
	// frames or 174 of 40. A ring reserves twice its size, and touches of the
	// second half as much as its largest sample has words.
	RingWords int

	// Batch is the number of samples after which a ring publishes by itself,
	// from 1; 0 means 10, which is the paper's.
	Batch int
}

const (
	defaultRingWords = 8 << 10
	minRingWords     = 16
	maxRingWords     = 1 << 24
	defaultBatch     = 10
)

// Queue is the global queue: a bitmap of the rings that have published since
// they were last drained.
//
//	size, batch, ready  set by New
//	bitmap              grown by Ring under mu, by replacing the slice; read by all
//	count, free         under mu
//	late                by producers whose ring is closed
//	delivered, sample   written by the consumer
//
// Only Ring, Ring.Close and Stats take the lock: no push and no drain waits.
type Queue struct {
	size  int // words in a ring; a power of two
	batch int
	ready chan struct{} // capacity 1: a token is there if a ring turned dirty since the last receive

	bitmap atomic.Pointer[[]*flags]

	mu    sync.Mutex
	count int       // buffers made
	free  []*buffer // of closed rings, the longest closed first

	late      atomic.Uint64
	delivered atomic.Uint64
	sample    ccmap.Sample // handed out by Drain; here so that Drain allocates nothing
}

// New returns an empty queue.
func New(o Options) *Queue {
	q := &Queue{
		size:  ringSize(o.RingWords),
		batch: o.Batch,
		ready: make(chan struct{}, 1),
	}
	if q.batch <= 0 {
		q.batch = defaultBatch
	}
	q.bitmap.Store(new([]*flags))
	return q
}

func ringSize(words int) int {
	if words <= 0 {
		return defaultRingWords
	}
	words = min(max(words, minRingWords), maxRingWords)
	return 1 << bits.Len(uint(words-1))
}

// MaxFrames returns how many frames a sample can have, at most, to fit into an
// empty ring.
func (q *Queue) MaxFrames() int { return q.size - headerWords }

// Ring returns a local queue for a new producer. Any goroutine may call it.
//
// The ring takes over the buffer that has been put aside the longest, which is
// the likeliest to be drained; samples still in it are delivered first.
func (q *Queue) Ring() *Ring {
	q.mu.Lock()
	defer q.mu.Unlock()
	var b *buffer
	if len(q.free) > 0 {
		b = q.free[0]
		q.free = slices.Delete(q.free, 0, 1)
	} else {
		b = q.newBuffer()
	}
	tail := b.tail.Load()
	return &Ring{queue: q, buf: b, words: b.words, tail: tail, room: b.room(tail)}
}

// newBuffer makes a buffer and gives it a bit. It is called under the lock.
func (q *Queue) newBuffer() *buffer {
	i := q.count % bitsPerFlags
	if i == 0 {
		grown := append(slices.Clone(*q.bitmap.Load()), new(flags))
		q.bitmap.Store(&grown)
	}
	all := *q.bitmap.Load()
	f := all[len(all)-1]
	b := &buffer{words: make(words, 2*q.size), flag: f, bit: 1 << i}
	f.buffers[i] = b
	q.count++
	return b
}

// putAside keeps the buffer of a closed ring for the next one.
func (q *Queue) putAside(b *buffer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, b)
}

// wake leaves a token for the consumer unless one is there.
func (q *Queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Ready receives after a ring has published what no drain has yet looked at. It
// is never closed. A receive may turn out to be for samples that the last Drain
// delivered already. Waking a sleeping consumer costs the producer a system
// call at worst: a consumer that pauses for a millisecond between drains spares
// its producers that.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Drain calls fold with every sample published before Drain came to its ring,
// and returns their number. One goroutine at a time, the consumer, may call it.
// The samples of one ring come in the order of their pushes; between rings
// there is no order. The Sample and its Frames are valid during the call of
// fold only, which must not call Drain.
func (q *Queue) Drain(fold func(*ccmap.Sample)) int {
	n := 0
	for _, f := range *q.bitmap.Load() {
		f.take(func(b *buffer) { n += q.drain(b, fold) })
	}
	return n
}

// drain folds what one buffer holds. It looks at the tail once, so that a fast
// producer cannot keep the consumer from the other rings.
func (q *Queue) drain(b *buffer, fold func(*ccmap.Sample)) int {
	n := 0
	tail := b.tail.Load()
	for head := b.head.Load(); head != tail; n++ {
		head += uint64(decode(&q.sample, b.words.at(head, q.size)))
		fold(&q.sample)
		b.head.Store(head)
	}
	q.sample.Frames = nil
	q.delivered.Add(uint64(n))
	return n
}
