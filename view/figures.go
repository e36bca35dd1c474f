package view

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Columns that several tables have.
var (
	cumColumn         = terminal.Column{Title: "cum", Right: true}
	shareColumn       = terminal.Column{Title: "share", Right: true}
	ofAllColumn       = terminal.Column{Title: "of all", Right: true, Drop: 4}
	samplesColumn     = terminal.Column{Title: "samples", Right: true, Drop: 1}
	activationsColumn = terminal.Column{Title: "activations", Right: true, Drop: 3}
)

// nameColumn returns the column of methods, with a title.
func nameColumn(title string) terminal.Column {
	return terminal.Column{Title: title, Shorten: terminal.ShortenMethod, Least: 34}
}

// locationColumn returns the column of places in the source.
func locationColumn(drop int) terminal.Column {
	return terminal.Column{Title: "location", Shorten: terminal.ShortenLocation, Least: 16, Drop: drop}
}

// figureTable is a table of calls or contexts: figures first, then other columns.
type figureTable struct {
	terminal.Table
	profile *Profile
}

func newFigureTable(p *Profile, columns ...terminal.Column) *figureTable {
	t := &figureTable{profile: p}
	t.Columns = append([]terminal.Column{cumColumn, shareColumn, ofAllColumn, samplesColumn, activationsColumn}, columns...)
	return t
}

// addFigures adds a row: the figures of a part of whole, then the given cells.
func (t *figureTable) addFigures(part, whole ccmap.Counters, cells ...string) {
	t.Add(append(t.figures(part, whole), cells...)...)
}

// addText adds a row without figures.
func (t *figureTable) addText(cells ...string) { addText(&t.Table, cells...) }

// addText adds a row whose last cells are given. The others are empty.
func addText(t *terminal.Table, cells ...string) {
	t.Add(append(make([]string, len(t.Columns)-len(cells)), cells...)...)
}

// figures returns the cells of the first columns. Activations are the last of them.
func (t *figureTable) figures(part, whole ccmap.Counters) []string {
	p := t.profile
	share := figure.Percent(figure.Share(p.measure.of(part), p.measure.of(whole)))
	return []string{p.measure.format(part), share, p.measure.share(part), p.formatSamples(part), p.formatActivations(part)}
}
