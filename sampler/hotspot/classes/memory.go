package classes

import (
	"encoding/binary"
	"errors"
)

// errAddress says that a word cannot be an address of the JVM's own data.
var errAddress = errors.New("not an address")

// The range of addresses that are read: the first page is never mapped, and the upper
// half is the kernel's.
const (
	lowest  = 4096
	highest = 1 << 47
)

// plausible reports whether the JVM may keep data of its own at addr. All of it is
// aligned to 8 bytes.
func plausible(addr uint64) bool { return addr >= lowest && addr < highest && addr%8 == 0 }

// read fills buf from an address that must be plausible.
func (t *Table) read(addr uint64, buf []byte) error {
	if !plausible(addr) {
		return errAddress
	}
	return t.vm.Memory.Read(addr, buf)
}

// word returns the word at an address.
func (t *Table) word(addr uint64) (uint64, error) {
	var buf [8]byte
	err := t.read(addr, buf[:])
	return binary.LittleEndian.Uint64(buf[:]), err
}

// maxBatch is how many ranges one call reads at most (IOV_MAX of Linux).
const maxBatch = 1024

// readMany fills as many of bufs as it can, and sets the others to nil.
func (t *Table) readMany(addrs []uint64, bufs [][]byte) {
	for len(addrs) > 0 {
		batch := min(len(addrs), maxBatch)
		n, _ := t.vm.Memory.ReadMany(addrs[:batch], bufs[:batch])
		if n < batch { // this one is not mapped
			bufs[n] = nil
			n++
		}
		addrs, bufs = addrs[n:], bufs[n:]
	}
}

// u64, u32 and u16 return a number of a structure that was read whole. An offset beyond
// its end gives 0, which is no address.
func u64(b []byte, at uint64) uint64 {
	if at > uint64(len(b)) || uint64(len(b))-at < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b[at:])
}

func u32(b []byte, at uint64) uint32 {
	if at > uint64(len(b)) || uint64(len(b))-at < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(b[at:])
}

func u16(b []byte, at uint64) uint16 {
	if at > uint64(len(b)) || uint64(len(b))-at < 2 {
		return 0
	}
	return binary.LittleEndian.Uint16(b[at:])
}
