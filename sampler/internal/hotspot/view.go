package hotspot

import "encoding/binary"

// view is a copied piece of a stack: the bytes from base upwards.
type view struct {
	base  uint64
	bytes []byte
}

// word returns the word at an address, and whether the piece has it.
func (v view) word(addr uint64) (uint64, bool) {
	at := addr - v.base
	if addr < v.base || uint64(len(v.bytes)) < 8 || at > uint64(len(v.bytes))-8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(v.bytes[at:]), true
}

// from returns the bytes from an address on; none if the address is not in the piece.
func (v view) from(addr uint64) []byte {
	if at := addr - v.base; addr >= v.base && at <= uint64(len(v.bytes)) {
		return v.bytes[at:]
	}
	return nil
}
