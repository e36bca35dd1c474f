package queue

import "github.com/ccmapd/ccmapd/ccmap"

// A record is one sample in a ring: headerWords words, then a word for each frame. A
// word is a ccmap.Frame, 64 bits in two halves. So the frames of a sample are copied in
// at once, and handed out without a copy.
//
//	word 0  number of frames     | flags
//	word 1  Thread
//	word 2  Goroutine
//	word 3  Time
//	word 4  Weight
//	word 5  OSThread             | Fresh
//	word 6  Depth                | 0
//	word 7… Frames
type word = ccmap.Frame

const headerWords = 7

// The flags of a record: Top in the low byte, the others above.
const (
	flagTop       = 0xff
	flagTruncated = 0x100
	flagEarly     = 0x200
	flagHit       = 0x400
)

// recordWords returns the length of a sample's record, in words.
func recordWords(s *ccmap.Sample) int { return headerWords + len(s.Frames) }

// encode writes the record of s into w, which has the record's length.
func encode(w []word, s *ccmap.Sample) {
	flags := uint32(s.Top)
	if s.Truncated {
		flags |= flagTruncated
	}
	if s.Early {
		flags |= flagEarly
	}
	if s.Hit {
		flags |= flagHit
	}
	h := (*[headerWords]word)(w)
	h[0] = halves(uint32(len(s.Frames)), flags)
	h[1] = split(s.Thread)
	h[2] = split(s.Goroutine)
	h[3] = split(uint64(s.Time))
	h[4] = split(uint64(s.Weight))
	h[5] = halves(s.OSThread, uint32(s.Fresh))
	h[6] = halves(s.Depth, 0)
	copy(w[headerWords:], s.Frames)
}

// decode reads the record at the beginning of w into s, and returns its length in
// words. The Frames of s then alias w.
func decode(s *ccmap.Sample, w []word) int {
	h := (*[headerWords]word)(w)
	n := headerWords + int(h[0].Method)
	flags := h[0].Offset
	*s = ccmap.Sample{
		Frames:    w[headerWords:n:n],
		Thread:    join(h[1]),
		Goroutine: join(h[2]),
		Time:      int64(join(h[3])),
		Weight:    int64(join(h[4])),
		OSThread:  uint32(h[5].Method),
		Fresh:     int32(h[5].Offset),
		Depth:     uint32(h[6].Method),
		Top:       ccmap.Repetition(flags & flagTop),
		Truncated: flags&flagTruncated != 0,
		Early:     flags&flagEarly != 0,
		Hit:       flags&flagHit != 0,
	}
	return n
}

func halves(low, high uint32) word { return word{Method: ccmap.MethodID(low), Offset: high} }

func split(v uint64) word { return halves(uint32(v), uint32(v>>32)) }

func join(w word) uint64 { return uint64(w.Method) | uint64(w.Offset)<<32 }
