package main

import (
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// measure is how hot code is measured in one profile: by weight or, where nothing
// has any, by samples.
type measure struct {
	total    int64 // weight or samples
	weighted bool
	unit     ccmap.Unit // of total
}

func measureOf(s *ccmap.Snapshot) measure {
	total := s.Total()
	if total.Time == 0 {
		return measure{total: total.Samples, unit: ccmap.SampleCount}
	}
	return measure{total: total.Time, weighted: true, unit: s.Meta().Unit}
}

func (m measure) of(c ccmap.Counters) int64 {
	if m.weighted {
		return c.Time
	}
	return c.Samples
}

func (m measure) format(c ccmap.Counters) string { return formatInColumn(m.of(c), m.unit) }

// amount prints a figure and names its unit.
func (m measure) amount(c ccmap.Counters) string { return formatAmount(m.of(c), m.unit) }

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

// methodTitle returns how a method stands in a table: by its name and, of code without
// symbols, the file that it is in: "[unknown] libc.so.6".
func methodTitle(m ccmap.Method) string {
	if library := path.Base(m.Signature); m.IsUnknown() && m.Signature != "" {
		return m.Name + " " + library
	}
	return m.Name
}

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
