package jfr

import (
	"errors"
	"fmt"
	"io"
)

// Reader reads the chunks of a recording.
type Reader struct {
	r     io.Reader
	take  func(int64) error
	last  *Chunk
	ended bool  // the last chunk was not finished, so nothing follows it
	read  int64 // bytes
}

// NewReader returns a reader that asks take for memory before it allocates, and gives it back
// as a negative number. Nil is a budget without end.
func NewReader(r io.Reader, take func(bytes int64) error) *Reader {
	if take == nil {
		take = func(int64) error { return nil }
	}
	return &Reader{r: r, take: take}
}

// Next returns the next chunk, and io.EOF after the last. It closes the chunk before. A
// recording that was cut gives io.ErrUnexpectedEOF; a chunk whose JVM was killed gives all up
// to its last flush.
func (r *Reader) Next() (*Chunk, error) {
	if r.last != nil {
		r.ended = r.last.Header.Generation != Finished
		r.last.Close()
		r.last = nil
	}
	if r.ended {
		return nil, io.EOF
	}
	at := r.read
	c, err := r.next()
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("chunk at byte %d: %w", at, err)
	}
	r.last = c
	return c, err
}

func (r *Reader) next() (*Chunk, error) {
	var head [HeaderSize]byte
	n, err := io.ReadFull(r.r, head[:])
	r.read += int64(n)
	if err != nil {
		return nil, err
	}
	h, err := ParseHeader(head[:])
	switch {
	case err != nil:
		return nil, err
	case h.Generation == Writing:
		return nil, fmt.Errorf("%w: it was copied while its header was written", ErrCorrupt)
	}
	c := NewChunk(h, r.take)
	events, err := r.body(c, h.Size-HeaderSize)
	if err == nil {
		err = c.Add(events)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// leastRead is how many bytes of a chunk are read at first: its header may lie.
const leastRead = 64 << 10

// body reads so many bytes. It allocates at most twice what is there.
func (r *Reader) body(c *Chunk, size int64) ([]byte, error) {
	var body []byte
	for int64(len(body)) < size {
		more := min(size-int64(len(body)), max(leastRead, int64(len(body))))
		if err := c.hold(more); err != nil {
			return nil, err
		}
		old := len(body)
		body = append(make([]byte, 0, old+int(more)), body...)[:old+int(more)]
		n, err := io.ReadFull(r.r, body[old:])
		r.read += int64(n)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}
