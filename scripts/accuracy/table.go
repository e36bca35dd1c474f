package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// table is one in Markdown. All columns but the first hold figures.
type table struct {
	head []string
	rows [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	rule := []string{"---"}
	for range t.head[1:] {
		rule = append(rule, "---:")
	}
	line(rule)
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}

// number prints with so many decimals; what is not known as a dash.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return thousands(strconv.FormatFloat(v, 'f', decimals, 64))
}

func percent(v float64) string { return number(v, 1) }

// count prints a number of samples with two or three digits that mean something.
func count(v float64) string {
	if v >= 1000 && !math.IsInf(v, 0) {
		unit := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/unit) * unit
	}
	return number(v, 0)
}

// needed prints a number of samples that a law foretells, as far as it can be
// trusted.
func needed(samples float64) string {
	if samples > 1e6 {
		return "> 1 million"
	}
	return count(samples)
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

// inSeconds prints a long time so that it can be grasped.
func inSeconds(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return "–"
	case seconds < 120:
		return number(seconds, 1) + " s"
	case seconds < 2*3600:
		return number(seconds/60, 0) + " min"
	}
	return number(seconds/3600, 1) + " h"
}

// steps prints the settings of an interval.
func steps(intervals []time.Duration) string {
	texts := make([]string, len(intervals))
	for i, d := range intervals {
		texts[i] = d.Round(10 * time.Microsecond).String()
	}
	return strings.Join(texts, " → ")
}
