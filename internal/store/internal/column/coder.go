// Package column encodes maps for the log of the store, in columns of numbers. It is some twenty times as fast as
// JSON for maps of a few hundred contexts, which the log has every few seconds. It keeps what export's JSON keeps,
// but for recent counters, which mean nothing to another process, and for addresses of positions that the map does
// not have.
//
// One function describes each part of a map for both ways: coder writes the numbers that it is given, or sets them to
// what it reads.
package column

import (
	"encoding/binary"
	"math"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// coder writes to out, or reads from in.
type coder struct {
	out     []byte
	in      cursor.Cursor
	reading bool
	texts   map[string]string // a reader's: texts that were met
}

func (c *coder) uint(v *uint64) {
	if c.reading {
		*v = c.in.Uleb()
	} else {
		c.out = binary.AppendUvarint(c.out, *v)
	}
}

// signed codes a number that may be negative, and is small more often than not.
func signed[T ~int | ~int32 | ~int64](c *coder, v *T) {
	u := uint64(*v)<<1 ^ uint64(int64(*v)>>63)
	c.uint(&u)
	if c.reading {
		*v = T(int64(u>>1) ^ -int64(u&1))
	}
}

// unsigned codes a number that is not negative.
func unsigned[T ~uint8 | ~uint32 | ~uint64 | ~int64](c *coder, v *T) {
	u := uint64(*v)
	c.uint(&u)
	if c.reading {
		*v = T(u)
	}
}

// offset codes an offset, of which 2³²-1 is the most frequent one.
func (c *coder) offset(v *uint32) {
	i := int32(*v)
	signed(c, &i)
	*v = uint32(i)
}

// fixed codes a number that is seldom small.
func (c *coder) fixed(v *uint64) {
	if c.reading {
		*v = c.in.U64()
	} else {
		c.out = binary.LittleEndian.AppendUint64(c.out, *v)
	}
}

func (c *coder) float(v *float64) {
	bits := math.Float64bits(*v)
	c.fixed(&bits)
	*v = math.Float64frombits(bits)
}

func (c *coder) bool(v *bool) {
	u := uint64(0)
	if *v {
		u = 1
	}
	c.uint(&u)
	*v = u != 0
}

func (c *coder) text(v *string) {
	n := uint64(len(*v))
	c.uint(&n)
	if c.reading {
		*v = c.known(c.in.Bytes(n))
	} else {
		c.out = append(c.out, *v...)
	}
}

// known returns a text, without a copy if it was met.
func (c *coder) known(b []byte) string {
	if s, met := c.texts[string(b)]; met {
		return s
	}
	s := string(b)
	c.texts[s] = s
	return s
}

// length codes the length of a list whose elements take at least a byte each: so a reader makes no list that is much
// longer than its input.
func (c *coder) length(n int) int {
	u := uint64(n)
	c.uint(&u)
	if c.reading && u > uint64(len(c.in.Data)) {
		c.in.Fail(errLong)
		return 0
	}
	return int(u)
}

// list codes a list. A reader's list is new.
func list[T any](c *coder, l *[]T, element func(*T)) {
	n := c.length(len(*l))
	if !c.reading {
		for i := range *l {
			element(&(*l)[i])
		}
		return
	}
	*l = nil
	for i := 0; i < n && c.in.Err == nil; i++ {
		*l = append(*l, *new(T))
		element(&(*l)[i])
	}
}
