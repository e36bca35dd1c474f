// Package figure prints numbers for people: counts, shares, times, sizes and amounts of
// a profile's unit.
package figure

import "strconv"

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
