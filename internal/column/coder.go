// Package column encodes maps in columns of numbers. It is some twenty times as fast as JSON for maps of a few hundred
// contexts.
//
//   - [Append] keeps all that export's JSON keeps, for the sums of a hub.
//   - [AppendDelta] is for the log of the store, which has a map every few seconds. It leaves out recent counters, which
//     mean nothing to another process, addresses of positions that the map does not have, and the time of the commit,
//     which the log has elsewhere.
//
// Both have one form, which [Decoder] reads: what a delta leaves out comes last.
//
// One function describes each part of a map for both ways: coder writes the numbers that it is given, or sets them to
// what it reads.
package column

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// ErrMemory is the error of a map that takes more memory than its reader may have.
var ErrMemory = errors.New("the map takes too much memory")

// coder writes to out, or reads from in.
type coder struct {
	out     []byte
	in      cursor.Cursor
	reading bool
	texts   map[string]string // a reader's: texts that were met
	memory  int64             // that a reader takes, bytes: writers count the same
	most    int64             // a reader's: what memory may be
}

// Of memory. It is a count and no measurement, the same for both ways.
const (
	listShare  = 5        // times its size an element of a list takes, at most: while lists grow, and in tables of the map
	nodeMemory = 128      // bytes of a node: as columns have it, and in the map with its window
	mapMemory  = 64 << 10 // of an empty map
)

// take counts memory. A reader that would take too much ends.
func (c *coder) take(bytes int64) {
	c.memory += bytes
	if c.reading && c.memory > c.most {
		c.in.Fail(ErrMemory)
	}
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
	c.take(int64(len(*v)))
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
	size := listShare * int64(unsafe.Sizeof(*new(T)))
	n := c.length(len(*l))
	if !c.reading {
		c.take(int64(n) * size)
		for i := range *l {
			element(&(*l)[i])
		}
		return
	}
	const leastSize = 4 // bytes of most elements, or more
	*l = nil
	if n > 0 {
		room := max(c.most-c.memory, 0) / size // a length may be a lie: no list is made that there is no memory for
		*l = make([]T, 0, min(int64(n), int64(len(c.in.Data)/leastSize), room))
	}
	for i := 0; i < n && c.in.Err == nil; i++ {
		c.take(size)
		*l = append(*l, *new(T))
		element(&(*l)[i])
	}
}
