package jfr

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf16"
)

// cursor reads the numbers and texts of a chunk. After the first mistake it is empty, and all
// numbers are 0, so that loops over the rest end.
type cursor struct {
	data []byte
	bad  bool
}

func (c *cursor) fail() {
	c.data, c.bad = nil, true
}

// bytes returns the next n bytes without a copy.
func (c *cursor) bytes(n int64) []byte {
	if n < 0 || n > int64(len(c.data)) {
		c.fail()
		return nil
	}
	b := c.data[:n:n]
	c.data = c.data[n:]
	return b
}

func (c *cursor) byte() byte {
	if len(c.data) == 0 {
		c.fail()
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return b
}

// longestVarint is how many bytes a number has at most: the ninth gives eight bits.
const longestVarint = 9

// varint returns the next number: LEB128, negative ones as two's complement.
func (c *cursor) varint() int64 {
	var v uint64
	for i, b := range c.data {
		if i == longestVarint-1 {
			c.data = c.data[longestVarint:]
			return int64(v | uint64(b)<<(7*i))
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			c.data = c.data[i+1:]
			return int64(v)
		}
	}
	c.fail()
	return 0
}

// count returns how many elements follow, each of which has a byte at least.
func (c *cursor) count() int {
	n := c.varint()
	if n < 0 || n > int64(len(c.data)) {
		c.fail()
		return 0
	}
	return int(n)
}

func (c *cursor) float() float64 {
	if b := c.bytes(4); b != nil {
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (c *cursor) double() float64 {
	if b := c.bytes(8); b != nil {
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Encodings of a text.
const (
	textNull     = 0
	textEmpty    = 1
	textConstant = 2 // a key follows
	textUTF8     = 3
	textChars    = 4 // UTF-16
	textLatin1   = 5
)

// skipText skips a text.
func (c *cursor) skipText() {
	switch c.byte() {
	case textNull, textEmpty:
	case textConstant:
		c.varint()
	case textUTF8, textLatin1:
		c.bytes(int64(c.count()))
	case textChars:
		for range c.count() {
			c.varint()
		}
	default:
		c.fail()
	}
}

// text returns the next text, or the key of a constant that has it.
func (c *cursor) text() (text string, key int64, isConstant bool) {
	switch c.byte() {
	case textNull, textEmpty:
	case textConstant:
		return "", c.varint(), true
	case textUTF8:
		text = string(c.bytes(int64(c.count())))
	case textChars:
		text = c.chars()
	case textLatin1:
		text = latin1(c.bytes(int64(c.count())))
	default:
		c.fail()
	}
	return text, 0, false
}

func (c *cursor) chars() string {
	units := make([]uint16, c.count())
	for i := range units {
		units[i] = uint16(c.varint())
	}
	if c.bad {
		return ""
	}
	return string(utf16.Decode(units))
}

func latin1(b []byte) string {
	var text strings.Builder
	text.Grow(len(b))
	for _, char := range b {
		text.WriteRune(rune(char))
	}
	return text.String()
}
