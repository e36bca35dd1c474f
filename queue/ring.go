package queue

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Ring is the local queue of one producer. Only the producer may call its methods, from
// one goroutine at a time. The caller synchronises a hand-over between goroutines.
//
// Only the producer uses these fields. They fill one cache line, and most pushes touch
// no other line except the record's. The ring shares its buffer with the consumer, and
// holds it until Close.
type Ring struct {
	queue   *Queue
	buf     *buffer // nil after Close
	words   words   // of buf
	tail    uint64  // position of the next record; ahead of buf.tail by the pending samples
	room    int     // words from tail on that are certainly free; the consumer may have freed more
	pending int     // samples pushed and not yet published
}

// Push copies the sample into the ring. It never waits. If the ring has no room for
// the sample, or is closed, Push counts the sample as dropped and returns false. It
// publishes every [Options.Batch] samples.
func (r *Ring) Push(s *ccmap.Sample) bool {
	n := recordWords(s)
	if n > r.room && !r.makeRoom(n) {
		return false
	}
	encode(r.words.at(r.tail, n), s)
	r.tail += uint64(n)
	r.room -= n
	r.pending++
	if r.pending >= r.queue.batch {
		r.Publish()
	}
	return true
}

// waitStep is the time that PushWaiting sleeps before it looks for room again: far
// less than a consumer's pause, and far more than a look.
const waitStep = 50 * time.Microsecond

// PushWaiting is Push for a producer that must lose nothing and may wait. While the
// ring is full, it publishes and waits for the consumer, even forever if nothing drains
// the queue. If waiting cannot help, it drops and counts the sample and returns false:
// stop is closed, the sample is larger than the ring, or the ring is closed.
func (r *Ring) PushWaiting(s *ccmap.Sample, stop <-chan struct{}) bool {
	for n := recordWords(s); n > r.room && n <= r.words.size(); {
		if r.room = r.buf.room(r.tail); n <= r.room {
			break
		}
		r.Publish()
		select {
		case <-stop:
			return r.Push(s)
		default:
			time.Sleep(waitStep)
		}
	}
	return r.Push(s)
}

// makeRoom looks for room for n words, and reports whether there is room. If not, it
// counts a dropped sample and publishes the pending ones: only a drain frees the ring.
func (r *Ring) makeRoom(n int) bool {
	b := r.buf
	if b == nil {
		r.queue.late.Add(1)
		return false
	}
	r.room = b.room(r.tail)
	if n <= r.room {
		return true
	}
	b.dropped.Add(1)
	if n > b.words.size() {
		b.oversized.Add(1)
	}
	r.Publish()
	return false
}

// Publish makes all pushed samples visible to the consumer. A producer calls it
// when it parks, or on request.
func (r *Ring) Publish() {
	if r.pending == 0 {
		return
	}
	b := r.buf
	b.accepted.Add(uint64(r.pending))
	b.tail.Store(r.tail)
	r.pending = 0
	if b.flag.set(b.bit) {
		r.queue.wake()
	}
}

// Close publishes and releases the ring's buffer for the next new producer. Later
// pushes count as dropped. Closing again does nothing.
func (r *Ring) Close() {
	if r.buf == nil {
		return
	}
	r.Publish()
	r.queue.putAside(r.buf)
	r.buf, r.words, r.room = nil, nil, 0
}

// buffer is the memory of one local queue: a single-producer, single-consumer ring of
// words. It belongs to an open [Ring], and after that to the queue's free list. It is
// never freed.
//
// Positions count words from the buffer's first use and never wrap. The record at
// position p begins at words[p & (size-1)]. The consumer reads the records between head
// and tail, and the producer writes everywhere else. The field words has room for two
// rings. A record that begins before the end of the ring runs on beyond it and is not
// split. The words that it would have had at the ring's beginning stay unused for that
// round.
//
//	words, flag, bit            written once, before any ring has the buffer
//	tail, accepted … oversized  written by the producer; tail.Store publishes the words
//	head                        written by the consumer; head.Store returns the words
//
// Each group has cache lines of its own: one side takes a line from the other only when
// it has something to tell. A buffer passes from one producer to the next under the
// queue's lock.
type buffer struct {
	words words
	flag  *flags // the word of the dirty bitmap that this buffer has a bit in
	bit   uint64

	_         cpu.CacheLinePad
	tail      atomic.Uint64
	accepted  atomic.Uint64 // samples published
	dropped   atomic.Uint64 // samples refused
	oversized atomic.Uint64 // dropped samples that were larger than the whole ring

	_    cpu.CacheLinePad
	head atomic.Uint64
	_    cpu.CacheLinePad
}

// room returns the number of free words from tail on. The producer calls it.
func (b *buffer) room(tail uint64) int { return b.words.size() - int(tail-b.head.Load()) }

// words is the memory of a buffer: twice the ring's size, which is a power of two.
type words []word

func (w words) size() int { return len(w) / 2 }

// at returns the n words of a record at a position. n is at most the ring's size.
func (w words) at(position uint64, n int) []word {
	i := int(position & uint64(w.size()-1))
	return w[i : i+n]
}
