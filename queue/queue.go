package queue

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Options says how large a queue's rings are. The zero value is useful.
type Options struct {
	// RingWords is the size of each ring in words of 8 bytes, rounded up to a power of
	// two from 16 to 1<<24; 0 means 8,192. A sample takes 7 words and one for each
	// frame, so a ring of the default size holds 61 samples of 127 frames or 174
	// samples of 40. A ring reserves twice its size. It touches only as many words of
	// the second half as its largest sample has.
	RingWords int

	// Batch is the number of samples after which a ring publishes by itself,
	// from 1; 0 means 10, the number in the paper.
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
//	bitmap              grown by Ring under mu, which replaces the slice; read by all
//	count, free         under mu
//	late                added to by producers whose ring is closed
//	delivered, sample   written by the consumer
//
// Only Ring, Ring.Close and Stats take the lock: no push and no drain waits.
type Queue struct {
	size  int // words in a ring; a power of two
	batch int
	ready chan struct{} // capacity 1: holds a token if a ring turned dirty since the last receive

	bitmap atomic.Pointer[[]*flags]

	mu    sync.Mutex
	count int       // buffers made
	free  []*buffer // of closed rings, the longest closed first

	late      atomic.Uint64
	delivered atomic.Uint64
	sample    ccmap.Sample // handed out by Drain; a field, so that Drain allocates nothing
}

// Stats counts samples since the queue was made. Pushed = Delivered + Dropped once all
// rings have published and a later Drain has returned. Before that, the difference is
// still queued. A sample counts only after its ring has published.
type Stats struct {
	Pushed    uint64 // offered to a ring, taken or not
	Delivered uint64 // handed to the consumer
	Dropped   uint64 // refused: the ring was full or closed, or the sample larger than the ring
	Oversized uint64 // dropped samples that were larger than the ring, so that no waiting could help
	Rings     int    // buffers made: the largest number of rings open at one time
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

// MaxFrames returns the largest number of frames of a sample that fits into an empty
// ring.
func (q *Queue) MaxFrames() int { return q.size - headerWords }

// Ring returns a local queue for a new producer. Any goroutine may call it.
//
// The ring takes over the free buffer that was closed first, because that one is most
// likely drained. Samples still in the buffer are delivered first.
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

// newBuffer makes a buffer and gives it a bit. The caller holds the lock.
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

// wake leaves a token for the consumer unless there is one.
func (q *Queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Ready receives after a ring has published samples that no drain has seen. It is
// never closed. The last Drain may have delivered the samples already. Waking a
// sleeping consumer costs the producer a system call at worst. A consumer that pauses
// for a millisecond between drains spares its producers most of these calls.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Drain calls fold with every sample published before Drain came to its ring,
// and returns their number. One goroutine at a time, the consumer, may call it.
// The samples of one ring come in the order of their pushes. Between rings
// there is no order. The Sample and its Frames are valid only during the call of
// fold. Fold must not call Drain.
func (q *Queue) Drain(fold func(*ccmap.Sample)) int {
	n := 0
	for _, f := range *q.bitmap.Load() {
		f.drainDirty(func(b *buffer) { n += q.drain(b, fold) })
	}
	return n
}

// drain folds the samples of one buffer. It reads the tail once, so that a fast
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

// Stats returns the counts so far. Any goroutine may call it. It reads Delivered
// first, so that Delivered plus Dropped never exceeds Pushed.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	late := q.late.Load()
	s := Stats{Delivered: q.delivered.Load(), Pushed: late, Dropped: late, Rings: q.count}
	for _, f := range *q.bitmap.Load() {
		for _, b := range f.buffers {
			if b != nil {
				s.count(b)
			}
		}
	}
	return s
}

func (s *Stats) count(b *buffer) {
	dropped := b.dropped.Load()
	s.Pushed += b.accepted.Load() + dropped
	s.Dropped += dropped
	s.Oversized += b.oversized.Load()
}

// flags is one word of the dirty bitmap, and the buffers of its bits. A producer sets
// the bit of its buffer after it has moved the tail, and only if the bit is clear. The
// consumer clears all bits before it reads any tail. Both are sequentially consistent,
// so if a producer finds its bit set, the consumer has yet to read the tail.
type flags struct {
	dirty atomic.Uint64
	_     cpu.CacheLinePad

	// buffers[i] is written under the queue's lock, before a ring that could
	// set bit i exists, and read by the consumer after it has seen bit i.
	buffers [bitsPerFlags]*buffer
}

const bitsPerFlags = 64

// set sets a bit and reports whether it was clear.
func (f *flags) set(bit uint64) bool {
	return f.dirty.Load()&bit == 0 && f.dirty.Or(bit)&bit == 0
}

// drainDirty clears the word and calls visit with the buffers whose bits were set.
func (f *flags) drainDirty(visit func(*buffer)) {
	if f.dirty.Load() == 0 {
		return
	}
	for d := f.dirty.Swap(0); d != 0; d &= d - 1 {
		visit(f.buffers[bits.TrailingZeros64(d)])
	}
}
