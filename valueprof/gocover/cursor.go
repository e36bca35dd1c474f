package gocover

import (
	"encoding/binary"
	"math"
)

// cursor reads numbers from the bytes that are left of a file. Once they have ended
// too soon, or a number was out of range, bad is true and all that is read is zero.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uint8() uint8 {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb reads a number of 32 bits in ULEB128.
func (c *cursor) uleb() uint32 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 || v > math.MaxUint32 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return uint32(v)
}
