package deltalog

import (
	"bytes"
	"fmt"
	"io"
)

// Damage counts what a scan has skipped.
type Damage struct {
	Stretches int   // of bytes between whole frames that are no frame
	Bytes     int64 // of these
	Torn      int64 // bytes after the last whole frame: a write that a kill has cut, or a damaged last frame
	Unread    int   // segments that could not be read to their end
}

func (d Damage) String() string {
	return fmt.Sprintf("%d damaged places (%d bytes), %d bytes torn at ends, %d segments not read", d.Stretches, d.Bytes, d.Torn, d.Unread)
}

func (d *Damage) add(o Damage) {
	d.Stretches += o.Stretches
	d.Bytes += o.Bytes
	d.Torn += o.Torn
	d.Unread += o.Unread
}

// wasteLimit bounds the bytes that a scan reads in vain, as a multiple of the segment: a hostile segment may have a
// salt at each eighth byte, with a length that reaches its end.
const wasteLimit = 16

// scanner reads the frames of a segment.
type scanner struct {
	r      io.ReaderAt
	size   int64
	salt   salt
	window []byte // of the segment
	at     int64  // of the window
	wasted int64  // bytes summed up for nothing
	err    error
}

const windowLen = 256 << 10

// scan calls f with each whole frame of a segment and its offset. The frame is valid during the call.
func scan(r io.ReaderAt, size int64, s salt, f func(Frame, int64, int64)) (Damage, error) {
	c := &scanner{r: r, size: size, salt: s}
	var d Damage
	bad := int64(-1) // where bytes began that are no frame
	for off := int64(0); off < size && c.err == nil; {
		frame, n := c.frame(off)
		if n == 0 {
			if bad < 0 {
				bad = off
			}
			off = c.find(off + 1)
			continue
		}
		if bad >= 0 {
			d.Stretches++
			d.Bytes += off - bad
			bad = -1
		}
		f(frame, off, n)
		off += n
	}
	if bad >= 0 && c.err == nil {
		d.Torn = c.torn(bad)
	}
	return d, c.err
}

// frame returns the frame at an offset and its size, 0 if there is none.
func (c *scanner) frame(off int64) (Frame, int64) {
	n, ok := sizeOf(c.bytes(off, headerLen), c.salt)
	if !ok || n > c.size-off || c.wasted > wasteLimit*c.size {
		return Frame{}, 0
	}
	b := c.bytes(off, int(n))
	if len(b) < int(n) {
		return Frame{}, 0
	}
	frame, ok := parse(b)
	if !ok {
		c.wasted += n
		return Frame{}, 0
	}
	return frame, n
}

// find returns where the next salt begins, the end of the segment if there is none.
func (c *scanner) find(off int64) int64 {
	for off+headerLen <= c.size {
		b := c.bytes(off, headerLen)
		if len(b) < headerLen {
			break
		}
		b = c.window[off-c.at:]
		if i := bytes.Index(b, c.salt[:]); i >= 0 {
			return off + int64(i)
		}
		off += int64(len(b) - len(c.salt) + 1)
	}
	return c.size
}

// torn returns how many bytes from an offset on are before the zeros at the end: a file system may have made the
// file longer before it wrote to it.
func (c *scanner) torn(from int64) int64 {
	last := from
	for off := from; off < c.size; {
		b := c.bytes(off, int(min(windowLen, c.size-off)))
		if len(b) == 0 {
			break
		}
		if used := bytes.TrimRight(b, "\x00"); len(used) > 0 {
			last = off + int64(len(used))
		}
		off += int64(len(b))
	}
	return last - from
}

// bytes returns n bytes at an offset, fewer at the end. They are valid until the next call.
func (c *scanner) bytes(off int64, n int) []byte {
	if off < c.at || off+int64(n) > c.at+int64(len(c.window)) {
		c.read(off, n)
	}
	b := c.window[min(off-c.at, int64(len(c.window))):]
	return b[:min(n, len(b))]
}

func (c *scanner) read(off int64, n int) {
	want := int(min(max(int64(n), windowLen), c.size-off))
	if cap(c.window) < want {
		c.window = make([]byte, want)
	}
	got, err := c.r.ReadAt(c.window[:want], off)
	c.window, c.at = c.window[:got], off
	if got < want && err != nil && err != io.EOF && c.err == nil {
		c.err = err
	}
}
