package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// newPathTable returns a table of things in two profiles: a figure, the shares and
// samples in both, more figures, and what it is.
func newPathTable(noun string, figure column, more ...column) *table {
	columns := append([]column{
		figure,
		{title: "A", right: true},
		{title: "B", right: true},
		{title: "samples A", right: true, drop: 2},
		{title: "samples B", right: true, drop: 2},
	}, more...)
	return &table{columns: append(columns,
		column{title: noun, shorten: shortenMethod, least: 34},
		column{title: "location", shorten: shortenLocation, least: 16, drop: 3},
	)}
}

// shownFrames is how many frames of a path are printed: the innermost ones.
const shownFrames = 7

// addPath adds a row with figures and the innermost frame of a path, and below it
// a row for each of the callers.
func (t *table) addPath(path []compare.Frame, figures ...string) {
	for i, f := range path {
		switch {
		case i == 0:
			t.add(append(figures, f.Method, location(f))...)
		case i == shownFrames:
			t.addText("  ← "+ellipsis, "")
			return
		default:
			t.addText("  ← "+f.Method, location(f))
		}
	}
}

// location prints where a frame is in its source: "" where that is unknown.
func location(f compare.Frame) string {
	if f.File == "" || f.Line == 0 {
		return f.File + f.Position
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}
