package queue

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Ring is the local queue of one producer, which alone may call its methods:
// one goroutine at a time, with the hand-over synchronised by the caller.
//
// All fields are the producer's own, and fill one cache line; most pushes touch
// no other but those of the record. What it shares with the consumer is in the
// buffer, which it holds until Close.
type Ring struct {
	queue   *Queue
	buf     *buffer // nil after Close
	words   words   // of buf
	tail    uint64  // position of the next record; ahead of buf.tail by what is pending
	room    int     // words known to be free from tail on; the consumer may have freed more
	pending int     // samples pushed and not yet published
}

// Push copies the sample into the ring. It never waits: if the ring has no room
// for the sample, or has been closed, it counts the sample as dropped and
// returns false. Every [Options.Batch] samples it publishes.
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

// waitStep is how long PushWaiting sleeps before it looks for room again: far
// less than a consumer rests, and far more than a look takes.
const waitStep = 50 * time.Microsecond

// PushWaiting is Push for a producer that must lose nothing and may be held up: it
// publishes and waits for the consumer while the ring is full. It drops and counts
// the sample, and returns false, where waiting is in vain: if stop is closed, if the
// sample is larger than the ring, or if the ring was closed. It blocks for as long
// as nobody drains the queue.
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

// makeRoom looks for room for n words, and counts a dropped sample if there is
// none. What is pending is then published, because the ring can only become
// free by being drained.
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
// when it parks, or is asked to.
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

// Close publishes and gives the ring's buffer up for the next new producer.
// Samples pushed later are counted as dropped. Closing again does nothing.
func (r *Ring) Close() {
	if r.buf == nil {
		return
	}
	r.Publish()
	r.queue.putAside(r.buf)
	r.buf, r.words, r.room = nil, nil, 0
}
