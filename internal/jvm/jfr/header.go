package jfr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Errors that the caller may want to tell apart, wrapped in those returned.
var (
	ErrFormat  = errors.New("not a chunk of a JFR recording")
	ErrVersion = errors.New("unknown version of JFR")
	ErrCorrupt = errors.New("corrupt chunk")
)

// Magic begins each chunk.
const Magic = "FLR\x00"

// HeaderSize is how many bytes the header of a chunk has.
const HeaderSize = 68

// Values of Header.Generation.
const (
	Finished = 0   // the chunk is complete
	Writing  = 255 // the header is being written: read it again
)

// Header is the header of a chunk.
type Header struct {
	Size           int64 // bytes, with the header; of a chunk that grows, up to the last flush
	Start          int64 // ns since 1970
	Duration       int64 // ns
	StartTicks     int64 // of the clock of events, at Start
	TicksPerSecond int64
	Generation     uint8 // counts flushes, except Finished and Writing
}

// flagCompressed says that whole numbers are varints.
const flagCompressed = 1

// ParseHeader decodes the first bytes of a chunk.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize || string(b[:len(Magic)]) != Magic {
		return Header{}, ErrFormat
	}
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	h := Header{
		Size: long(8), Start: long(32), Duration: long(40), StartTicks: long(48), TicksPerSecond: long(56),
		Generation: b[64],
	}
	switch major, flags := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[66:]); {
	case major != 2:
		return h, fmt.Errorf("%w: %d, want 2, of JDK 11 and later", ErrVersion, major)
	case h.Generation == Writing:
		return h, nil
	case flags&flagCompressed == 0:
		return h, fmt.Errorf("%w: its numbers are not compressed", ErrVersion)
	case h.Size < HeaderSize:
		return h, fmt.Errorf("%w: %d bytes long by its header", ErrCorrupt, h.Size)
	case h.TicksPerSecond <= 0:
		return h, fmt.Errorf("%w: a clock of %d ticks a second", ErrCorrupt, h.TicksPerSecond)
	}
	return h, nil
}

// Nanoseconds converts a number of ticks. What is beyond 64 bits stays at the limit.
func (h *Header) Nanoseconds(ticks int64) int64 {
	high, low := bits.Mul64(magnitude(ticks), uint64(time.Second))
	if high >= uint64(h.TicksPerSecond) {
		return signed(math.MaxInt64, ticks)
	}
	ns, _ := bits.Div64(high, low, uint64(h.TicksPerSecond))
	return signed(min(ns, math.MaxInt64), ticks)
}

// Time converts a time in ticks to ns since 1970.
func (h *Header) Time(ticks int64) int64 { return h.Start + h.Nanoseconds(ticks-h.StartTicks) }

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func signed(v uint64, like int64) int64 {
	if like < 0 {
		return -int64(v)
	}
	return int64(v)
}
