package export

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding)
// as far as profile.proto needs it: no groups.

// message is what is left of a message.
type message []byte

// wireType says how the value of a field is written.
type wireType uint8

const (
	wireVarint  wireType = 0
	wireFixed64 wireType = 1
	wireBytes   wireType = 2 // messages, strings, packed lists
	wireFixed32 wireType = 5
)

// field is one field of a message.
type field struct {
	number uint64
	wire   wireType
	value  uint64  // of a varint; others of ours are no numbers
	data   message // of wireBytes: the value; of a varint: its bytes
}

var (
	errCut      = errors.New("it ends within a field")
	errVarint   = errors.New("a number of more than ten bytes, or cut")
	errWireType = errors.New("a field of another type than its own")
)

// next takes the next field from the message, which is not empty.
func (m *message) next(f *field) error {
	key, size := varint(*m)
	if size == 0 {
		return errVarint
	}
	rest := (*m)[size:]
	*f = field{number: key >> 3, wire: wireType(key & 7)}
	switch f.wire {
	case wireVarint:
		if f.value, size = varint(rest); size == 0 {
			return errVarint
		}
	case wireBytes:
		length, n := varint(rest)
		if n == 0 {
			return errVarint
		}
		if rest = rest[n:]; length > uint64(len(rest)) {
			return errCut
		}
		size = int(length)
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	default:
		return fmt.Errorf("unknown wire type %d", f.wire)
	}
	if size > len(rest) {
		return errCut
	}
	f.data, *m = rest[:size], rest[size:]
	return nil
}

// varint decodes the number at the beginning of b; size is 0 if there is no number.
// Bits of a tenth byte beyond 64 are dropped, as all decoders do.
func varint(b []byte) (v uint64, size int) {
	switch { // most have one byte to three
	case len(b) > 0 && b[0] < 0x80:
		return uint64(b[0]), 1
	case len(b) > 1 && b[1] < 0x80:
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, 2
	case len(b) > 2 && b[2] < 0x80:
		return uint64(b[0]&0x7f) | uint64(b[1]&0x7f)<<7 | uint64(b[2])<<14, 3
	}
	return longVarint(b)
}

func longVarint(b []byte) (v uint64, size int) {
	for i := range min(len(b), binary.MaxVarintLen64) {
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// numbers reads a message whose known fields are single numbers, into values by their
// field number. The last of a field that stands twice counts.
func (m message) numbers(values []uint64) error {
	var f field
	for len(m) > 0 {
		if err := m.next(&f); err != nil {
			return err
		}
		if f.number >= uint64(len(values)) || f.number == 0 {
			continue
		}
		if f.wire != wireVarint {
			return errWireType
		}
		values[f.number] = f.value
	}
	return nil
}

// eachNumber calls yield with the elements of a list of numbers, packed or one.
func (f *field) eachNumber(yield func(uint64)) error {
	switch f.wire {
	case wireVarint:
		yield(f.value)
		return nil
	case wireBytes:
		for list := f.data; len(list) > 0; {
			v, size := varint(list)
			if size == 0 {
				return errVarint
			}
			yield(v)
			list = list[size:]
		}
		return nil
	}
	return errWireType
}
