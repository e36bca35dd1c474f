package main

import "github.com/ccmapd/ccmapd/ccmap"

// newFigureTable returns a table of calls or contexts: figures first, then the
// given columns.
func newFigureTable(columns ...column) *table {
	return &table{columns: append([]column{
		{title: "cum", right: true},
		{title: "share", right: true},
		{title: "of all", right: true, drop: 4},
		{title: "samples", right: true, drop: 1},
		{title: "activations", right: true, drop: 3},
	}, columns...)}
}

// addFigures adds a row to a figure table: the figures of a part of whole, then
// the given cells.
func (t *table) addFigures(p *profile, part, whole ccmap.Counters, cells ...string) {
	t.add(append(p.figures(part, whole), cells...)...)
}

// addText adds a row to a figure table that has no figures.
func (t *table) addText(cells ...string) {
	t.add(append(make([]string, len(t.columns)-len(cells)), cells...)...)
}

// figures returns the cells of the first columns of a figure table. Activations
// are the last of them.
func (p *profile) figures(part, whole ccmap.Counters) []string {
	share := formatPercent(percent(p.measure.of(part), p.measure.of(whole)))
	return []string{p.measure.format(part), share, p.measure.share(part), p.formatSamples(part), p.formatActivations(part)}
}
