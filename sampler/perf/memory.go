package perf

import (
	"encoding/binary"
	"fmt"
)

// memory reads the target's memory while the target runs. What it returns may
// be torn and is never trusted.
type memory struct {
	pid int
}

// read fills buf from addr. It is all or nothing.
func (m memory) read(addr uint64, buf []byte) error {
	n, err := shortReadMemory(m.pid, addr, buf)
	if err != nil {
		return fmt.Errorf("read %d bytes at %#x: %w", len(buf), addr, err)
	}
	if n != len(buf) {
		return fmt.Errorf("read %d bytes at %#x: only %d are mapped", len(buf), addr, n)
	}
	return nil
}

// stackView is a piece of a stack: the bytes from base upwards.
type stackView struct {
	base  uint64
	bytes []byte
}

// word returns the word at addr, and whether it is in the piece.
func (v stackView) word(addr uint64) (uint64, bool) {
	at := addr - v.base
	if addr < v.base || uint64(len(v.bytes)) < 8 || at > uint64(len(v.bytes))-8 {
		return 0, false
	}
	return binary.NativeEndian.Uint64(v.bytes[at:]), true
}
