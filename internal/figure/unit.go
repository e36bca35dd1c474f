package figure

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Bases of units that are printed with a prefix of the SI. All others are counts.
const (
	inTime  = ccmap.Nanoseconds
	inBytes = "bytes"
)

// UnitName names the thing that a unit measures, for people: "CPU time", "instructions",
// "inuse_space".
func UnitName(u ccmap.Unit) string {
	if u == ccmap.CPUTime {
		return "CPU time"
	}
	return terminal.Printable(u.Kind())
}

// Amount prints n of a unit: "12.3s of CPU time", "27.8MB of inuse_space",
// "1,234 instructions".
func Amount(n int64, u ccmap.Unit) string {
	switch u.Base() {
	case inTime:
		return Time(n) + " of " + UnitName(u)
	case inBytes:
		return scaled(n, sizeUnits) + " of " + UnitName(u)
	case ccmap.SampleCount.Base():
		if singular, isPlural := strings.CutSuffix(UnitName(u), "s"); isPlural {
			return Plural(n, singular)
		}
		return Count(n) + " " + UnitName(u)
	}
	return Count(n) + " " + terminal.Printable(u.Base()) + " of " + UnitName(u)
}

// InColumn prints n of a unit without its name, with as many digits as those
// above and below.
func InColumn(n int64, u ccmap.Unit) string {
	switch u.Base() {
	case inTime:
		return timeInColumn(n)
	case inBytes:
		return sizeInColumn(n)
	}
	return Count(n)
}

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

// timeInColumn prints all three digits, "1.50s", so that times are easy to
// compare with those above and below.
func timeInColumn(ns int64) string {
	if ns >= inMinutes {
		return Time(ns)
	}
	return scaledInColumn(ns, timeUnits)
}

// sizeInColumn prints bytes as timeInColumn does nanoseconds.
func sizeInColumn(n int64) string { return scaledInColumn(n, sizeUnits) }

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
