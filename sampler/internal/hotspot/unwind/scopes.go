package unwind

import (
	"encoding/binary"
	"slices"
)

// coding is a variant of UNSIGNED5, the JVM's compressed numbers of 1 to 5 bytes: bytes up
// to 191, as they are in memory, end a number, and each adds 6 bits (utilities/unsigned5.hpp of
// JDK 25).
type coding uint8

const (
	withNulls coding = iota // until JDK 19: bytes as they are
	noNulls                 // since JDK 20: every byte is one more, and none is 0

	codings = 2
)

// number decodes a number at an offset. It returns the offset after it, or ok false where
// the bytes end.
func (c coding) number(data []byte, at int) (value uint32, next int, ok bool) {
	const high, shift, most = 192, 6, 5
	for i := range most {
		if at < 0 || at >= len(data) {
			return 0, 0, false
		}
		b := uint32(data[at])
		at++
		digit := b
		if c == noNulls {
			if b == 0 {
				return 0, 0, false
			}
			digit--
		}
		value += digit << (shift * i)
		if b < high || i == most-1 {
			return value, at, true
		}
	}
	return 0, 0, false
}

// scope is a call in compiled code.
type scope struct {
	method uint32 // number in the table of methods, from 1
	bci    int
}

// maxScopes bounds the inlined calls at one place.
const maxScopes = 512

// scopesAt decodes the calls at an offset of the scopes' data, innermost first. A scope is
// described after its caller's, so offsets fall.
func (c coding) scopesAt(data []byte, at int, dst []scope) ([]scope, bool) {
	for len(dst) < maxScopes {
		sender, next, ok1 := c.number(data, at)
		method, next, ok2 := c.number(data, next)
		bci, _, ok3 := c.number(data, next)
		if !ok1 || !ok2 || !ok3 || int64(sender) >= int64(at) {
			return dst, false
		}
		dst = append(dst, scope{method, int(int32(bci)) - 1})
		if sender == 0 {
			return dst, true
		}
		at = int(sender)
	}
	return dst, false
}

// descriptor tells the scope of an instruction.
type descriptor struct {
	pc    int32 // offset from the code's beginning
	scope int32 // offset in the scopes' data
}

// parseDescriptors reads a table of PcDesc. It is in the order of pc; the first and the
// last are no instructions.
func (l *layout) parseDescriptors(raw []byte) []descriptor {
	list := make([]descriptor, 0, len(raw)/int(l.sizePC))
	for ; uint64(len(raw)) >= l.sizePC; raw = raw[l.sizePC:] {
		d := descriptor{int32(l.pcOffset.of(raw)), int32(l.pcScope.of(raw))}
		if d.pc < 0 || len(list) > 0 && d.pc < list[len(list)-1].pc {
			continue
		}
		list = append(list, d)
	}
	return list
}

// findDescriptor returns the descriptor of an offset, or the next one.
func findDescriptor(list []descriptor, offset int32) (d descriptor, exact, ok bool) {
	i, exact := slices.BinarySearchFunc(list, offset, func(d descriptor, offset int32) int { return int(d.pc) - int(offset) })
	if i == len(list) {
		return descriptor{}, false, false
	}
	return list[i], exact, true
}

// methodAt returns a method of a compiled method's table. 0 is none.
func methodAt(table []byte, number uint32) uint64 {
	at := 8 * (uint64(number) - 1)
	if number == 0 || at+8 > uint64(len(table)) {
		return 0
	}
	return binary.LittleEndian.Uint64(table[at:])
}
