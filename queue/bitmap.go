package queue

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// flags is one word of the dirty bitmap and the buffers that its bits stand
// for. A producer sets the bit of its buffer after it has moved the tail, and
// only if the bit is clear; the consumer clears all bits before it looks at any
// tail. Both are sequentially consistent, so a producer that finds its bit set
// knows that the consumer has yet to look.
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

// take clears the word and calls visit with the buffers whose bits were set.
func (f *flags) take(visit func(*buffer)) {
	if f.dirty.Load() == 0 {
		return
	}
	for d := f.dirty.Swap(0); d != 0; d &= d - 1 {
		visit(f.buffers[bits.TrailingZeros64(d)])
	}
}
