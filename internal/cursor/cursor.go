// Package cursor reads numbers and texts from foreign bytes that may end anywhere.
package cursor

import (
	"encoding/binary"
	"errors"
)

var errCut = errors.New("it ends too early")

// Cursor reads little-endian bytes from first to last. After the first error it is empty
// and every number is 0, so that every loop over the rest ends.
type Cursor struct {
	Data []byte // the rest
	Err  error
}

// Fail sets the cursor's error, unless it has one.
func (c *Cursor) Fail(err error) {
	if c.Err == nil {
		c.Err = err
	}
	c.Data = nil
}

// Empty reports whether nothing is left.
func (c *Cursor) Empty() bool { return len(c.Data) == 0 }

// Bytes returns the next n bytes, without a copy.
func (c *Cursor) Bytes(n uint64) []byte {
	if n > uint64(len(c.Data)) {
		c.Fail(errCut)
		return nil
	}
	b := c.Data[:n:n]
	c.Data = c.Data[n:]
	return b
}

// Byte returns the next byte.
func (c *Cursor) Byte() byte {
	if len(c.Data) == 0 {
		c.Fail(errCut)
		return 0
	}
	b := c.Data[0]
	c.Data = c.Data[1:]
	return b
}

// U16 returns the next 2 bytes as a number.
func (c *Cursor) U16() uint16 {
	if b := c.Bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// U24 returns the next 3 bytes as a number.
func (c *Cursor) U24() uint32 { return uint32(c.U16()) | uint32(c.Byte())<<16 }

// U32 returns the next 4 bytes as a number.
func (c *Cursor) U32() uint32 {
	if b := c.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 returns the next 8 bytes as a number.
func (c *Cursor) U64() uint64 {
	if b := c.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uleb returns the next LEB128 number.
func (c *Cursor) Uleb() uint64 {
	if len(c.Data) > 0 && c.Data[0] < 0x80 {
		b := c.Data[0]
		c.Data = c.Data[1:]
		return uint64(b)
	}
	v, n := binary.Uvarint(c.Data) // the same encoding
	if n <= 0 {
		c.Fail(errCut)
		return 0
	}
	c.Data = c.Data[n:]
	return v
}

// Sleb returns the next signed LEB128 number.
func (c *Cursor) Sleb() int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := c.Byte()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if c.Err != nil {
			return 0
		}
		if b&0x80 == 0 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// Text returns the next bytes up to a 0.
func (c *Cursor) Text() []byte {
	for i, b := range c.Data {
		if b == 0 {
			s := c.Data[:i]
			c.Data = c.Data[i+1:]
			return s
		}
	}
	c.Fail(errCut)
	return nil
}
