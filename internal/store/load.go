package store

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// load bounds all that one reading takes, however many files and frames of the log it adds up. After its first error
// it stays at that error. A nil load has no bounds. One goroutine calls its methods.
type load struct {
	within export.ReadOptions // with its defaults
	held   int64              // by the sum so far, bytes
	part   int64              // by the part that is being read, as it was last asked for, bytes
	err    error
}

func newLoad(within export.ReadOptions) *load {
	l := &load{within: within.WithDefaults()}
	if l.within.Steps == nil {
		l.within.Steps = new(atomic.Int64)
	}
	return l
}

// next returns the bounds of the next file: what is left.
func (l *load) next() export.ReadOptions {
	o := l.within
	o.MaxMemory = max(o.MaxMemory-l.held, 1)
	if o.Reserve != nil {
		o.Reserve = func(bytes int64) error { return l.within.Reserve(l.held + bytes) }
	}
	return o
}

// beside returns the load of a part that is summed up itself, beside what is held. They have one count of steps.
func (l *load) beside() *load { return &load{within: l.next()} }

// hold notes the memory of the sum, after a part was added to it.
func (l *load) hold(sum *ccmap.Map) error {
	if l == nil || l.err != nil {
		return l.failed()
	}
	l.held, l.part = export.MapMemory(sum), 0
	return l.take(0, 0)
}

// take takes steps, and memory for the part that is being read.
func (l *load) take(steps, memory int64) error {
	if l == nil || l.err != nil {
		return l.failed()
	}
	l.part += memory
	switch most := l.within.MaxSteps; {
	case most > 0 && l.within.Steps.Add(steps) > most:
		l.err = fmt.Errorf("%w: reading it takes more than %d steps", export.ErrTooLarge, most)
	case l.part > l.within.MaxMemory-l.held:
		return l.exceed()
	case l.within.Reserve != nil:
		l.err = l.within.Reserve(l.held + l.part)
	}
	return l.err
}

// exceed ends the load: it takes too much memory.
func (l *load) exceed() error {
	l.err = fmt.Errorf("%w: more than %d bytes", export.ErrMemory, l.within.MaxMemory)
	return l.err
}

// failed returns the error that the load stays at.
func (l *load) failed() error {
	if l == nil {
		return nil
	}
	return l.err
}

// bodyShare is how many times its size a body takes while it is decoded, at most, beside the map that it becomes.
const bodyShare = 16

// body takes the memory for a body of the log, and decompresses it.
func (l *load) body(compressed []byte) ([]byte, error) {
	if l == nil {
		return decoder.DecodeAll(compressed, nil)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(l.mostBody())))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	plain, err := d.DecodeAll(compressed, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, l.exceed()
	}
	if err != nil {
		return nil, err
	}
	return plain, l.take(int64(len(plain)), bodyShare*int64(len(plain)))
}

// bodyMemory returns how much memory a body may take that was decompressed: what was taken for it, and what is left.
func (l *load) bodyMemory(size int) int64 {
	if l == nil {
		return math.MaxInt64
	}
	return max(l.within.MaxMemory-l.held-l.part, 0) + bodyShare*int64(size)
}

// mostBody returns how many bytes the next body may have.
func (l *load) mostBody() int64 {
	return min(max((l.within.MaxMemory-l.held-l.part)/bodyShare, 1), mostBody)
}
