// Package figure prints numbers for people: counts, shares, times, sizes and amounts of
// a profile's unit.
package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count prints n with its thousands apart: "1,234,567".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Plural prints "1 sample", "2 samples".
func Plural(n int64, noun string) string { return PluralOf(n, noun, noun+"s") }

// PluralOf prints "1 branch", "2 branches".
func PluralOf(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Share returns 100·part/whole, 0 of an empty whole.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// Percent prints "12.3%".
func Percent(p float64) string { return strconv.FormatFloat(p, 'f', 1, 64) + "%" }

// ByteSize is the value of a flag that takes an amount of memory, for example
// "64MiB", "1GB", "500kB" or "1048576". 0 means no limit.
type ByteSize int64

const (
	KiB ByteSize = 1 << 10
	MiB ByteSize = 1 << 20
	GiB ByteSize = 1 << 30
)

// byteUnits are the units of sizes, as they are printed.
var byteUnits = []struct {
	name string
	size ByteSize
}{
	{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"B", 1},
}

func (b *ByteSize) Type() string { return "size" }

// String returns the size as a whole number of the largest unit that divides it.
func (b ByteSize) String() string {
	for _, u := range byteUnits {
		if b != 0 && b%u.size == 0 {
			return fmt.Sprintf("%d%s", b/u.size, u.name)
		}
	}
	return "0"
}

// Set takes a number, with or without a unit, in upper or lower case.
func (b *ByteSize) Set(s string) error {
	number, unit := s, ByteSize(1)
	for _, u := range byteUnits {
		if len(s) >= len(u.name) && strings.EqualFold(s[len(s)-len(u.name):], u.name) {
			number, unit = strings.TrimSpace(s[:len(s)-len(u.name)]), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	size := n * float64(unit)
	if err != nil || !(size >= 0 && size < math.MaxInt64) {
		return fmt.Errorf("%q is not a size: write 64MiB, 1GB, 500kB or bytes", s)
	}
	*b = ByteSize(size)
	return nil
}
