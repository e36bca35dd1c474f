package unwind

import (
	"encoding/binary"
	"errors"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// The bounds of one moment. A stack of 2,000 calls, of which nothing is known yet, takes
// some thousand reads.
const (
	maxReads = 1 << 14
	maxBytes = 64 << 20
	maxSteps = 1 << 20
)

var errTooMuch = errors.New("a moment takes more than it may")

// memory is the JVM's memory within the budget of a moment. What came with the moment is
// as it was at its instant.
type memory struct {
	live   vmstructs.Memory
	pieces []process.Piece

	reads, bytes, steps int // left
}

// renewBudget renews the budget.
func (m *memory) renewBudget(pieces []process.Piece) {
	m.pieces, m.reads, m.bytes, m.steps = pieces, maxReads, maxBytes, maxSteps
}

// spent reports whether nothing is left of the budget.
func (m *memory) spent() bool { return m.reads < 0 || m.bytes < 0 || m.steps < 0 }

// work draws steps.
func (m *memory) work(steps int) bool {
	m.steps -= steps
	return !m.spent()
}

// plausible reports whether an address can be one of the JVM's: no one trusts the first
// page, and the kernel's half is out of reach.
func plausible(addr uint64) bool { return addr >= 4096 && addr < 1<<47 }

// read fills buf from an address.
func (m *memory) read(addr uint64, buf []byte) error {
	if !plausible(addr) {
		return errors.New("not an address")
	}
	for _, p := range m.pieces {
		if (view{p.Addr, p.Bytes}).copy(addr, buf) {
			return nil
		}
	}
	m.reads--
	m.bytes -= len(buf)
	if m.spent() {
		return errTooMuch
	}
	return m.live.Read(addr, buf)
}

// readBytes returns n bytes.
func (m *memory) readBytes(addr uint64, n int) ([]byte, error) {
	if n < 0 || n > m.bytes {
		m.bytes = -1
		return nil, errTooMuch
	}
	buf := make([]byte, n)
	return buf, m.read(addr, buf)
}

// word returns a word; 0 where it cannot be read.
func (m *memory) word(addr uint64) uint64 {
	var b [8]byte
	if m.read(addr, b[:]) != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// view is a copied piece of memory: the bytes from base upwards.
type view struct {
	base  uint64
	bytes []byte
}

// copy fills buf from addr, if the piece has all of it.
func (v view) copy(addr uint64, buf []byte) bool {
	at, n := addr-v.base, uint64(len(v.bytes))
	if addr < v.base || at > n || uint64(len(buf)) > n-at {
		return false
	}
	copy(buf, v.bytes[at:])
	return true
}

// word returns the word at addr, and whether it is in the piece.
func (v view) word(addr uint64) (uint64, bool) {
	at := addr - v.base
	if addr < v.base || addr&7 != 0 || uint64(len(v.bytes)) < 8 || at > uint64(len(v.bytes))-8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(v.bytes[at:]), true
}

// holds reports whether an address is in the piece, or just beyond.
func (v view) holds(addr uint64) bool { return addr >= v.base && addr-v.base <= uint64(len(v.bytes)) }
