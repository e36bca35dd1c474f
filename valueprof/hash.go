package valueprof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// A Hash says how a [Table] finds the position of a value in its index.
type Hash uint8

// The seed's three hashes, which select the bits that tell the values held
// apart, and one that multiplies.
const (
	HashAuto       Hash = iota // what Resolve says
	HashPext                   // the bits, gathered by one instruction, or where that is missing or slow by a loop
	HashBitPermute             // the bits, gathered by a list of their indices
	HashShift                  // the bits, gathered by a list of shifts
	HashMultiply               // the high bits of a product, by a multiplier searched for the values held
)

var hashNames = [...]string{"auto", "pext", "bitpermute", "shift", "multiply"}

// Hashes returns the hashes that a table can use: all but HashAuto.
func Hashes() []Hash { return []Hash{HashPext, HashBitPermute, HashShift, HashMultiply} }

// String returns the name that ParseHash knows.
func (h Hash) String() string {
	if int(h) < len(hashNames) {
		return hashNames[h]
	}
	return fmt.Sprintf("hash(%d)", uint8(h))
}

// ParseHash returns the hash of a name: auto, pext, bitpermute, shift or
// multiply.
func ParseHash(name string) (Hash, error) {
	i := slices.Index(hashNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("parse value hash %q: use one of %s", name, strings.Join(hashNames[:], ", "))
	}
	return Hash(i), nil
}

// Resolve returns HashMultiply for HashAuto, and any other hash as it is.
//
// It does not take HashPext where the processor is fast at it, because multiply is
// better there too. On an Intel Xeon with AMX, under Go 1.26, a hit costs 0.9 ns
// with multiply and 1.7 ns with PEXT alone, since Go can inline a product but no
// instruction that it has no intrinsic for (BenchmarkHit). And the index is as
// small: N²/4 bytes for any values, where selected bits need less for most and up
// to 2^(N-1) for some.
func (h Hash) Resolve() Hash {
	if h == HashAuto {
		return HashMultiply
	}
	return h
}

// pextIsFast reports whether a processor has the instruction PEXT, and in
// hardware: 3 cycles. AMD before Zen 3 (families 15h to 17h) and Hygon (18h, a Zen
// 1) have it in microcode: from 18 cycles to about 300, more the more bits the mask
// has (uops.info, PEXT_R64_R64_R64).
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
