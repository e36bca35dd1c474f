package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/column"
)

// The encodings of bodies. A number is never given to another encoding. A reader counts a body of an encoding that
// it does not know as lost.
const encodingColumns byte = 1 // package column, under zstd

const (
	bodyWindow = 1 << 20 // bytes that the compression looks back: bodies are small
	mostBody   = 1 << 30 // bytes of a decompressed body
)

// The coders are shared: any goroutine may call EncodeAll and DecodeAll.
var (
	encoder    = newEncoder()
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostBody))
)

func newEncoder() *zstd.Encoder {
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(bodyWindow), zstd.WithLowerEncoderMem(true))
	z.EncodeAll(nil, nil) // makes its channel here, and not in the bubble of a test
	return z
}

// mostPooled bounds the buffers that are kept for the next body, in bytes: most deltas have some 100 kB.
const mostPooled = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encodeBody returns a body that needs no other frame to be read.
func encodeBody(s *ccmap.Snapshot) (body []byte, encoding byte) {
	plain := buffers.Get().(*[]byte)
	*plain = column.AppendDelta((*plain)[:0], s)
	body = encoder.EncodeAll(*plain, nil)
	if cap(*plain) <= mostPooled {
		buffers.Put(plain)
	}
	return body, encodingColumns
}

// decodeBody returns the map of a body, within a load.
func decodeBody(d *column.Decoder, body []byte, encoding byte, l *load) (*ccmap.Map, error) {
	if encoding != encodingColumns {
		return nil, fmt.Errorf("read body: unknown encoding %d", encoding)
	}
	plain, err := l.body(body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	m, err := d.Decode(plain, l.bodyMemory(len(plain)))
	if errors.Is(err, column.ErrMemory) {
		err = l.exceed()
	}
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return m, nil
}
