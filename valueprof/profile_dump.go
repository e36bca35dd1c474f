package valueprof

import (
	"bytes"
	"fmt"
	"io"
)

// dump writes what happens to tables, a line an event, OpenJ9's
// TR_JProfilingValueDumpInfo:
//
//	table EVENT site=SITE DETAILS
//
// A nil dump writes nothing. The first error ends it: a dump is for people, and a
// profile goes on without.
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

// created is when a point gets a table.
func (d *dump) created(t *tended) {
	if d != nil {
		d.layout("created", t)
	}
}

// added is when a table has taken a value that it did not have.
func (d *dump) added(t *tended, v uint64) {
	if d == nil {
		return
	}
	d.layout(fmt.Sprintf("added value=%#x", v), t)
	if t.table.Full() {
		d.totals("full", t)
	}
}

// judged is when the janitor has looked at a table.
func (d *dump) judged(t *tended, v verdict) {
	switch {
	case d == nil:
	case v == verdictDecayed:
		d.layout("decayed", t)
	case v == verdictReset:
		d.layout("reset", t)
	}
}

// freed is when a point with a table is freed.
func (d *dump) freed(pt *point) {
	if d != nil && pt.table != nil {
		d.totals("freed", pt.table)
	}
}

func (d *dump) layout(event string, t *tended) {
	d.start(event, t)
	d.line = append(d.line, ' ')
	from := len(d.line)
	d.line, _ = t.table.AppendText(d.line)
	d.line = append(d.line[:from], oneLine(d.line[from:])...)
	d.end()
}

// oneLine joins lines by semicolons.
func oneLine(text []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("; "))
}

func (d *dump) totals(event string, t *tended) {
	d.start(event, t)
	d.line = fmt.Appendf(d.line, " matched=%d other=%d aged=%d", t.table.Matched(), t.table.Other(), t.table.Aged())
	d.end()
}

func (d *dump) start(event string, t *tended) {
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
