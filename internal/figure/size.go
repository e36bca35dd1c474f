package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

// Set takes a number, with or without a unit, in whatever case.
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
