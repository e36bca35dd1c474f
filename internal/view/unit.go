package view

import (
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
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

// amountOf prints n of a unit: "12.3s of CPU time", "27.8MB of inuse_space",
// "1,234 instructions".
func amountOf(n int64, u ccmap.Unit) string {
	switch u.Base() {
	case inTime:
		return figure.Time(n) + " of " + UnitName(u)
	case inBytes:
		return figure.Size(n) + " of " + UnitName(u)
	case ccmap.SampleCount.Base():
		if singular, isPlural := strings.CutSuffix(UnitName(u), "s"); isPlural {
			return figure.Plural(n, singular)
		}
		return figure.Count(n) + " " + UnitName(u)
	}
	return figure.Count(n) + " " + terminal.Printable(u.Base()) + " of " + UnitName(u)
}

// inColumn prints n of a unit without its name, with as many digits as those
// above and below.
func inColumn(n int64, u ccmap.Unit) string {
	switch u.Base() {
	case inTime:
		return figure.TimeInColumn(n)
	case inBytes:
		return figure.SizeInColumn(n)
	}
	return figure.Count(n)
}
