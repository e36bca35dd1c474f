package valueprof

import "math/bits"

// maxTries bounds the search for a multiplier. About one in ten fits, so a
// search that ends without one is rarer than one in 10^10, unless someone chose
// the values for it.
const maxTries = 256

// multiplyBits returns the binary logarithm of the number of positions for a
// capacity: capacity² / 4 of them, where about one multiplier in ten separates
// that many values. Twice as many would find one at the second or third try; half
// as many, at the hundredth. And twice the capacity at least: no odd multiplier
// spreads 0, 1, -1 and 1<<63 over 4 positions.
func multiplyBits(capacity int) int {
	positions := max(2*capacity, (capacity*capacity+3)/4)
	return bits.Len(uint(positions - 1))
}

// searchMultiplier finds a multiplier that gives each value held a position of
// its own.
func (t *Table) searchMultiplier() bool {
	for i := range uint64(maxTries) {
		if key := multiplier(i); injective(t.held(), key, t.shift) {
			t.key = key
			return true
		}
	}
	return false
}

// multiplier returns the i-th of a fixed series of odd numbers without a
// pattern (splitmix64).
func multiplier(i uint64) uint64 {
	z := (i + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31 | 1
}

// injective reports whether a multiplier leaves no two values in one position.
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

// maxPositions is what multiplyBits gives MaxCapacity.
const maxPositions = 1024
