package valueprof

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// A Hash says how a [Table] finds the position of a value in its index.
type Hash uint8

// OpenJ9's three hashes select the bits that tell the values held apart. The fourth
// hash multiplies.
const (
	HashAuto       Hash = iota // the hash that Resolve chooses
	HashPext                   // the bits, gathered by the instruction PEXT, or by a loop where PEXT is missing or slow
	HashBitPermute             // the bits, gathered by a list of their indices
	HashShift                  // the bits, gathered by a list of shifts
	HashMultiply               // the high bits of a product, by a multiplier searched for the values held
)

var hashNames = [...]string{"auto", "pext", "bitpermute", "shift", "multiply"}

// Hashes returns the hashes that a table can use: all but HashAuto.
func Hashes() []Hash { return []Hash{HashPext, HashBitPermute, HashShift, HashMultiply} }

// ParseHash returns the hash with a name: auto, pext, bitpermute, shift or multiply.
func ParseHash(name string) (Hash, error) {
	i := slices.Index(hashNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("parse value hash %q: use one of %s", name, strings.Join(hashNames[:], ", "))
	}
	return Hash(i), nil
}

// String returns the name that ParseHash accepts.
func (h Hash) String() string {
	if int(h) < len(hashNames) {
		return hashNames[h]
	}
	return fmt.Sprintf("hash(%d)", uint8(h))
}

// Resolve returns HashMultiply for HashAuto, and every other hash unchanged.
//
// Resolve never chooses HashPext: HashMultiply is better even where the processor is
// fast at PEXT. On an Intel Xeon with AMX, under Go 1.26, a hit costs 0.9 ns with
// multiply and 1.7 ns with PEXT alone. Go inlines a product, but no instruction that
// it has no intrinsic for (BenchmarkHit). The index of multiply is small too: N²/4
// bytes for any values. Selected bits need less for most sets of values, but up to
// 2^(N-1) bytes for some.
func (h Hash) Resolve() Hash {
	if h == HashAuto {
		return HashMultiply
	}
	return h
}

// pextIsFast reports whether a processor has the instruction PEXT in hardware: 3
// cycles. AMD before Zen 3 (families 15h to 17h) and Hygon (18h, a Zen 1) have PEXT
// in microcode. There it takes 18 to about 300 cycles, more with more bits in the
// mask (uops.info, PEXT_R64_R64_R64).
func pextIsFast(cpu *cpuid.CPUInfo) bool {
	if !cpu.Supports(cpuid.BMI2) {
		return false
	}
	switch cpu.VendorID {
	case cpuid.AMD:
		return cpu.Family >= 0x19
	case cpuid.Hygon:
		return cpu.Family > 0x18
	}
	return true
}

const (
	// maxTries bounds the search for a multiplier. About one in ten fits, so fewer
	// than one search in 10^10 fails, unless someone chose the values to defeat it.
	maxTries = 256
	// maxPositions is the number of positions for MaxCapacity: see multiplyBits.
	maxPositions = 1024
)

// multiplyBits returns the binary logarithm of the number of positions for a
// capacity. The number is capacity² / 4, where about one multiplier in ten separates
// that many values. With twice as many positions the second or third multiplier would
// do; with half as many, the hundredth. The number is at least twice the capacity: no
// odd multiplier spreads 0, 1, -1 and 1<<63 over 4 positions.
func multiplyBits(capacity int) int {
	positions := max(2*capacity, (capacity*capacity+3)/4)
	return bits.Len(uint(positions - 1))
}

// searchMultiplier finds a multiplier that gives each value held a position of its
// own, and reports whether it did.
func (t *Table) searchMultiplier() bool {
	for i := range uint64(maxTries) {
		if key := multiplier(i); injective(t.held(), key, t.shift) {
			t.key = key
			return true
		}
	}
	return false
}

// multiplier returns the i-th of a fixed series of odd numbers without a pattern
// (splitmix64).
func multiplier(i uint64) uint64 {
	z := (i + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31 | 1
}

// injective reports whether a multiplier gives all values different positions.
func injective(values []Value, key uint64, shift uint8) bool {
	var taken [maxPositions / 64]uint64
	for _, v := range values {
		p := v.Value * key >> (shift & 63)
		word, bit := &taken[p/64%uint64(len(taken))], uint64(1)<<(p%64)
		if *word&bit != 0 {
			return false
		}
		*word |= bit
	}
	return true
}
