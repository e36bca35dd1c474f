package report

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Table is a Markdown table. All columns but the first hold figures.
type Table struct {
	Head []string
	Rows [][]string
}

// Row adds a row of as many cells as Head has.
func (t *Table) Row(cells ...string) { t.Rows = append(t.Rows, cells) }

func (t *Table) String() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Head)
	rule := []string{"---"}
	for range t.Head[1:] {
		rule = append(rule, "---:")
	}
	line(rule)
	for _, r := range t.Rows {
		line(r)
	}
	return b.String()
}

// Number prints a number with some decimals, or a dash if it is unknown.
func Number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return thousands(strconv.FormatFloat(v, 'f', decimals, 64))
}

// Percent prints with one decimal and without the sign.
func Percent(v float64) string { return Number(v, 1) }

// Count prints a number of samples with two or three significant digits.
func Count(v float64) string {
	if v >= 1000 && !math.IsInf(v, 0) {
		unit := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/unit) * unit
	}
	return Number(v, 0)
}

func thousands(text string) string {
	whole, rest, point := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "."
	}
	return whole + rest
}

// Seconds prints a long time in a suitable unit.
func Seconds(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return "–"
	case seconds < 120:
		return Number(seconds, 1) + " s"
	case seconds < 2*3600:
		return Number(seconds/60, 0) + " min"
	}
	return Number(seconds/3600, 1) + " h"
}

// Steps prints the settings of an interval.
func Steps(intervals []time.Duration) string {
	texts := make([]string, len(intervals))
	for i, d := range intervals {
		texts[i] = d.Round(10 * time.Microsecond).String()
	}
	return strings.Join(texts, " → ")
}

// Measured says when and on which machine a campaign ran.
func Measured(when time.Time) string {
	return fmt.Sprintf("Measured %s: %s, %d CPUs, Linux %s, %s.",
		when.UTC().Format(time.DateOnly), processor(), runtime.NumCPU(), Kernel(), runtime.Version())
}

// LoadAverage returns the machine's load over the last minute, or 0 if unknown.
func LoadAverage() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &load)
	}
	return load
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Kernel returns the release of the running kernel.
func Kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of unknown release"
	}
	return unix.ByteSliceToString(u.Release[:])
}
