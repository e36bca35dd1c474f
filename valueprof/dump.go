package valueprof

import (
	"bytes"
	"fmt"
	"io"
)

// dump writes a line for each event in the life of a table, like OpenJ9's
// TR_JProfilingValueDumpInfo:
//
//	table EVENT site=SITE DETAILS
//
// A nil dump writes nothing. The first error ends the dump, and the profile goes on
// without it: a dump is only for people.
type dump struct {
	w    io.Writer
	name func(Site) string
	line []byte
}

func newDump(w io.Writer, name func(Site) string) *dump {
	if w == nil {
		return nil
	}
	if name == nil {
		name = Site.String
	}
	return &dump{w: w, name: name}
}

// created writes that a point got a table.
func (d *dump) created(t *pointTable) {
	if d != nil {
		d.layout("created", t)
	}
}

// added writes that a table holds a new value.
func (d *dump) added(t *pointTable, v uint64) {
	if d == nil {
		return
	}
	d.layout(fmt.Sprintf("added value=%#x", v), t)
	if t.Full() {
		d.totals("full", t)
	}
}

// judged writes that the janitor has changed a table.
func (d *dump) judged(t *pointTable, v outcome) {
	switch {
	case d == nil:
	case v == outcomeDecayed:
		d.layout("decayed", t)
	case v == outcomeReset:
		d.layout("reset", t)
	}
}

// freed writes that the profile forgets a table.
func (d *dump) freed(t *pointTable) {
	if d != nil {
		d.totals("freed", t)
	}
}

func (d *dump) layout(event string, t *pointTable) {
	d.start(event, t)
	d.line = append(d.line, ' ')
	from := len(d.line)
	d.line, _ = t.AppendText(d.line)
	d.line = append(d.line[:from], oneLine(d.line[from:])...)
	d.end()
}

// oneLine joins lines with semicolons.
func oneLine(text []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("; "))
}

func (d *dump) totals(event string, t *pointTable) {
	d.start(event, t)
	d.line = fmt.Appendf(d.line, " matched=%d other=%d aged=%d", t.Matched(), t.Other(), t.Aged())
	d.end()
}

func (d *dump) start(event string, t *pointTable) {
	d.line = fmt.Appendf(d.line[:0], "table %s site=%s", event, d.name(t.point.Site))
}

func (d *dump) end() {
	if d.w == nil {
		return
	}
	if _, err := d.w.Write(append(d.line, '\n')); err != nil {
		d.w = nil
	}
}
