package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// measure is how hot code is measured in one profile: by its clock or, where it
// has none, by samples.
type measure struct {
	total int64 // ns or samples
	timed bool
	clock clock // what the ns are
}

func measureOf(s *ccmap.Snapshot) measure {
	total := s.Total()
	if total.Time == 0 || total.Time == total.Samples {
		// No clock ticks in ns: these are the counts of folded stacks, which
		// another tool wrote and package export takes for both.
		return measure{total: total.Samples}
	}
	return measure{total: total.Time, timed: true, clock: clockOf(s.Meta().Engine)}
}

func (m measure) of(c ccmap.Counters) int64 {
	if m.timed {
		return c.Time
	}
	return c.Samples
}

func (m measure) format(c ccmap.Counters) string {
	switch {
	case !m.timed:
		return formatCount(c.Samples)
	case m.clock == instructionClock:
		return formatCount(c.Time)
	}
	return formatTimeInColumn(c.Time)
}

// share prints c as a part of the whole profile.
func (m measure) share(c ccmap.Counters) string { return formatPercent(percent(m.of(c), m.total)) }

// unknown is printed for a counter that a profile does not have.
const unknown = "–"

func (p *profile) formatSamples(c ccmap.Counters) string {
	if !p.countsSamples() {
		return unknown
	}
	return formatCount(c.Samples)
}

// formatActivations marks a lower bound.
func (p *profile) formatActivations(c ccmap.Counters) string {
	switch {
	case p.isRecent():
		return unknown
	case p.ActivationsExact():
		return formatCount(c.Activations)
	case p.Total().Activations == 0:
		return unknown
	}
	return "≥" + formatCount(c.Activations)
}

// inMinutes is the time, in ns, from which minutes and seconds say more than
// three digits.
const inMinutes = 600e9

// formatTime prints nanoseconds with up to three significant digits: "0",
// "12ns", "45.6ms", "1.5s", and from ten minutes on "75m12s".
func formatTime(ns int64) string {
	if ns == 0 {
		return "0"
	}
	if ns >= inMinutes {
		seconds := ns / 1e9
		if ns%1e9 >= 5e8 {
			seconds++
		}
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	}
	value, unit := inUnit(ns)
	return strconv.FormatFloat(value, 'g', 3, 64) + unit
}

// formatTimeInColumn prints all three digits, "1.50s", so that times are easy to
// compare with those above and below.
func formatTimeInColumn(ns int64) string {
	if ns < 1000 || ns >= inMinutes {
		return formatTime(ns)
	}
	value, unit := inUnit(ns)
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", value), ".") + unit
}

// inUnit returns nanoseconds in the unit that leaves up to three digits before
// the point.
func inUnit(ns int64) (value float64, unit string) {
	value = float64(ns)
	for _, unit := range []string{"ns", "µs", "ms"} {
		if value < 999.5 {
			return value, unit
		}
		value /= 1000
	}
	return value, "s"
}

// formatCount prints n with its thousands apart: "1,234,567".
func formatCount(n int64) string {
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

// percent returns 100·part/whole, 0 of an empty whole.
func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func formatPercent(p float64) string { return strconv.FormatFloat(p, 'f', 1, 64) + "%" }

// plural prints "1 sample", "2 samples".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return formatCount(n) + " " + noun + "s"
}

const ellipsis = "…"

// shortenMethod cuts a method name to width runes. The directories of its
// package go first, then its middle, since both ends tell it apart:
// "net/http.(*conn).serve", "http.(*conn).serve", "http.…n).serve".
func shortenMethod(name string, width int) string {
	return shortenMiddle(dropDirectories(name), width)
}

// dropDirectories removes the path in front of the package, in the name itself
// only, not in its type arguments.
func dropDirectories(name string) string {
	head, _, _ := strings.Cut(name, "[")
	indent := name[:len(name)-len(strings.TrimLeft(name, contextIndent))]
	if slash := strings.LastIndexByte(head, '/'); slash >= 0 {
		return indent + name[slash+1:]
	}
	return name
}

// contextIndent are the runes that may stand in front of a method in a table:
// the indentation of a caller or callee.
const contextIndent = " ←→"

// shortenMiddle keeps both ends of s, the end being the longer one.
func shortenMiddle(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	head := (width - 1) * 2 / 5
	tail := width - 1 - head
	return string(runes[:head]) + ellipsis + string(runes[len(runes)-tail:])
}

// shortenLocation cuts "dir/dir/file.go:12" to width runes: directories go from
// the left, and the middle of the file's own name where even that is too long.
func shortenLocation(location string, width int) string {
	for utf8.RuneCountInString(location) > width {
		slash := strings.IndexByte(location, '/')
		if slash < 0 {
			return shortenMiddle(location, width)
		}
		location = location[slash+1:]
	}
	return location
}
