package queue

import (
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// buffer is the memory of one local queue: a single-producer, single-consumer
// ring of words. It belongs to a [Ring] while that is open, and to the queue's
// free list after; it never goes away.
//
// Positions count words from the buffer's first use and are never wrapped; the
// record at position p begins at words[p & (size-1)]. The records between head
// and tail are the consumer's to read; all else is the producer's to write.
// words has room for two rings: a record that begins before the end of the ring
// runs on beyond it instead of being split, and the words that it would have had
// at the ring's beginning stay unused for that round.
//
//	words, flag, bit            written once, before any ring has the buffer
//	tail, accepted … oversized  by the producer; tail.Store publishes the words
//	head                        by the consumer; head.Store returns the words
//
// Each group has cache lines of its own, so that neither side takes a line away
// from the other except to tell it something. A buffer changes hands from one
// producer to the next under the queue's lock.
type buffer struct {
	words words
	flag  *flags // the word of the dirty bitmap that this buffer has a bit in
	bit   uint64

	_         cpu.CacheLinePad
	tail      atomic.Uint64
	accepted  atomic.Uint64 // samples published
	dropped   atomic.Uint64 // samples refused
	oversized atomic.Uint64 // of dropped: larger than the whole ring

	_    cpu.CacheLinePad
	head atomic.Uint64
	_    cpu.CacheLinePad
}

// room returns how many words from tail on are free. The producer calls it.
func (b *buffer) room(tail uint64) int { return b.words.size() - int(tail-b.head.Load()) }

// words is the memory of a buffer: twice as many as the ring's size, which is a
// power of two.
type words []word

func (w words) size() int { return len(w) / 2 }

// at returns the words that a record of n words at a position has. n is at most
// the ring's size.
func (w words) at(position uint64, n int) []word {
	i := int(position & uint64(w.size()-1))
	return w[i : i+n]
}
