// Package deltalog is an append-only log of frames that survives kills, power cuts and flipped bits. It works like
// this:
//
//  1. A log is a directory of segments. Each process begins a new one: nobody appends to a tail that may be torn.
//  2. A segment has a salt of 64 random bits in its name. Each of its frames begins with the salt. So no text that a
//     target chose, a name of a method for example, can look like a frame to a reader that has lost its way.
//  3. A frame ends with a CRC32-C over all of it. A reader believes no length before the sum is right. After bytes
//     that are not a frame it goes on at the next salt: one damaged frame is one lost frame.
//  4. Append writes its frames in one call and syncs once. Only then are they acknowledged.
//
// Frames mean nothing here: package store knows what a kind, a head and a body are.
package deltalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Kind is the kind of a frame.
type Kind byte

// Frame is a record. Its bytes are valid as long as its giver says.
type Frame struct {
	Kind     Kind
	Encoding byte   // of the body
	Stream   uint64 // that it belongs to
	Seq      uint64 // in the stream
	Head     []byte
	Body     []byte
}

// salt begins all frames of a segment.
type salt [8]byte

// A frame is, in little-endian:
//
//	salt 8 · size of the frame 4 · size of the head 4 · kind 1 · encoding 1 · zero 2 · stream 8 · seq 8 ·
//	head · body · CRC 4
const (
	sizeAt    = 8
	headerLen = 36
	sumLen    = 4
	leastLen  = headerLen + sumLen

	// MaxFrame bounds a frame, in bytes: a map of some 10 million nodes.
	MaxFrame = 128 << 20
)

// ErrTooLarge is the error of a frame over MaxFrame.
var ErrTooLarge = errors.New("too large for the log")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the bytes of a frame.
func appendFrame(b []byte, s salt, f *Frame) ([]byte, error) {
	size := leastLen + len(f.Head) + len(f.Body)
	if size > MaxFrame {
		return b, fmt.Errorf("a frame of %d bytes is %w", size, ErrTooLarge)
	}
	begin := len(b)
	b = append(b, s[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Head)))
	b = append(b, byte(f.Kind), f.Encoding, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, f.Stream)
	b = binary.LittleEndian.AppendUint64(b, f.Seq)
	b = append(append(b, f.Head...), f.Body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli)), nil
}

// sizeOf returns the size that a frame claims to have, if it begins like one of the segment.
func sizeOf(header []byte, s salt) (size int64, ok bool) {
	if len(header) < headerLen || salt(header[:len(s)]) != s {
		return 0, false
	}
	size = int64(binary.LittleEndian.Uint32(header[sizeAt:]))
	return size, size >= leastLen && size <= MaxFrame
}

// parse returns the frame that b is, if its sum is right. The frame shares the bytes.
func parse(b []byte) (Frame, bool) {
	data, sum := b[:len(b)-sumLen], b[len(b)-sumLen:]
	headLen := uint64(binary.LittleEndian.Uint32(b[12:]))
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(data, castagnoli) || headLen > uint64(len(data)-headerLen) {
		return Frame{}, false
	}
	rest := data[headerLen:]
	return Frame{
		Kind: Kind(b[16]), Encoding: b[17],
		Stream: binary.LittleEndian.Uint64(b[20:]), Seq: binary.LittleEndian.Uint64(b[28:]),
		Head: rest[:headLen:headLen], Body: rest[headLen:],
	}, true
}
