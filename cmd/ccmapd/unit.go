package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Bases of units that are printed with a prefix of the SI. All others are counts.
const (
	inTime  = ccmap.Nanoseconds
	inBytes = "bytes"
)

// unitName returns what a unit measures, for people: "CPU time", "instructions",
// "inuse_space".
func unitName(u ccmap.Unit) string {
	if u == ccmap.CPUTime {
		return "CPU time"
	}
	return printable(u.Kind())
}

// formatAmount prints n of a unit: "12.3s of CPU time", "27.8MB of inuse_space",
// "1,234 instructions".
func formatAmount(n int64, u ccmap.Unit) string {
	switch u.Base() {
	case inTime:
		return formatTime(n) + " of " + unitName(u)
	case inBytes:
		return formatSize(n) + " of " + unitName(u)
	case ccmap.SampleCount.Base():
		if singular, isPlural := strings.CutSuffix(unitName(u), "s"); isPlural {
			return plural(n, singular)
		}
		return formatCount(n) + " " + unitName(u)
	}
	return formatCount(n) + " " + printable(u.Base()) + " of " + unitName(u)
}

// formatInColumn prints n of a unit without its name, with as many digits as those
// above and below.
func formatInColumn(n int64, u ccmap.Unit) string {
	switch u.Base() {
	case inTime:
		return formatTimeInColumn(n)
	case inBytes:
		return formatSizeInColumn(n)
	}
	return formatCount(n)
}

// inMinutes is the time, in ns, from which minutes and seconds say more than
// three digits.
const inMinutes = 600e9

// Prefixes of the units of time and of sizes, each a thousand times the one before.
var (
	timeUnits = []string{"ns", "µs", "ms", "s"}
	sizeUnits = []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
)

// formatTime prints nanoseconds with up to three significant digits: "0",
// "12ns", "45.6ms", "1.5s", and from ten minutes on "75m12s".
func formatTime(ns int64) string {
	if ns >= inMinutes {
		seconds := ns / 1e9
		if ns%1e9 >= 5e8 {
			seconds++
		}
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	}
	return formatScaled(ns, timeUnits)
}

// formatTimeInColumn prints all three digits, "1.50s", so that times are easy to
// compare with those above and below.
func formatTimeInColumn(ns int64) string {
	if ns >= inMinutes {
		return formatTime(ns)
	}
	return formatScaledInColumn(ns, timeUnits)
}

// formatSize prints bytes as formatTime does nanoseconds: "0", "12B", "27.8MB".
func formatSize(n int64) string { return formatScaled(n, sizeUnits) }

func formatSizeInColumn(n int64) string { return formatScaledInColumn(n, sizeUnits) }

func formatScaled(n int64, units []string) string {
	if n == 0 {
		return "0"
	}
	value, unit := inUnit(n, units)
	return strconv.FormatFloat(value, 'g', 3, 64) + unit
}

func formatScaledInColumn(n int64, units []string) string {
	if n < 1000 {
		return formatScaled(n, units)
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
