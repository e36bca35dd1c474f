package classes

import (
	"encoding/binary"
	"errors"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// errAddress says that a word cannot be an address of the JVM's own data.
var errAddress = errors.New("not an address")

// The range of addresses that are read: the first page is never mapped, and the upper
// half is the kernel's.
const (
	lowest  = 4096
	highest = 1 << 47
)

// Plausible reports whether the JVM may keep data of its own at addr. All of it is
// aligned to 8 bytes.
func Plausible(addr uint64) bool { return addr >= lowest && addr < highest && addr%8 == 0 }

// read fills buf from an address that must be plausible.
func (t *Table) read(addr uint64, buf []byte) error {
	if !Plausible(addr) {
		return errAddress
	}
	return t.memory().Read(addr, buf)
}

// word returns the word at an address.
func (t *Table) word(addr uint64) (uint64, error) {
	var buf [8]byte
	err := t.read(addr, buf[:])
	return binary.LittleEndian.Uint64(buf[:]), err
}

// ReadMany fills as many of bufs as it can, each from the address of the same index, with
// few calls. It sets the others to nil, as those whose address is not plausible.
func ReadMany(mem vmstructs.Memory, addrs []uint64, bufs [][]byte) {
	from, to, at := make([]uint64, 0, len(addrs)), make([][]byte, 0, len(addrs)), make([]int, 0, len(addrs))
	for i, addr := range addrs {
		switch {
		case !Plausible(addr):
			bufs[i] = nil
		case len(bufs[i]) > 0:
			from, to, at = append(from, addr), append(to, bufs[i]), append(at, i)
		}
	}
	for len(from) > 0 {
		n, _ := mem.ReadMany(from, to)
		if n < len(from) { // this one cannot be read
			bufs[at[n]] = nil
			n++
		}
		from, to, at = from[n:], to[n:], at[n:]
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
