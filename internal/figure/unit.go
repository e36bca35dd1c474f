package figure

import (
	"fmt"
	"strconv"
	"strings"
)

// inMinutes is the shortest time, in ns, that is printed as minutes and seconds: they say
// more than three digits.
const inMinutes = 600e9

// Prefixes of the units of time and of sizes, each a thousand times the one before.
var (
	timeUnits = []string{"ns", "µs", "ms", "s"}
	sizeUnits = []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
)

// Time prints nanoseconds with up to three significant digits: "0",
// "12ns", "45.6ms", "1.5s", and from ten minutes on "75m12s".
func Time(ns int64) string {
	if ns >= inMinutes {
		seconds := ns / 1e9
		if ns%1e9 >= 5e8 {
			seconds++
		}
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	}
	return scaled(ns, timeUnits)
}

// TimeInColumn prints nanoseconds with all three digits, "1.50s", so that times are easy to
// compare with those above and below.
func TimeInColumn(ns int64) string {
	if ns >= inMinutes {
		return Time(ns)
	}
	return scaledInColumn(ns, timeUnits)
}

// SizeInColumn prints bytes as TimeInColumn does nanoseconds.
func SizeInColumn(n int64) string { return scaledInColumn(n, sizeUnits) }

// Size prints bytes with up to three significant digits: "27.8MB".
func Size(n int64) string { return scaled(n, sizeUnits) }

func scaled(n int64, units []string) string {
	if n == 0 {
		return "0"
	}
	value, unit := inUnit(n, units)
	return strconv.FormatFloat(value, 'g', 3, 64) + unit
}

func scaledInColumn(n int64, units []string) string {
	if n < 1000 {
		return scaled(n, units)
	}
	value, unit := inUnit(n, units)
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", value), ".") + unit
}

// inUnit returns n in the unit that leaves up to three digits before the point, or
// the largest.
func inUnit(n int64, units []string) (value float64, unit string) {
	value = float64(n)
	last := len(units) - 1
	for _, unit := range units[:last] {
		if value < 999.5 {
			return value, unit
		}
		value /= 1000
	}
	return value, units[last]
}

// Bytes prints a size in the units of the SI.
func Bytes(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d kB", (n+999)/1e3)
}
