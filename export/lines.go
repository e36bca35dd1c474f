package export

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// lineDoc is the line of a position that is not a line itself, as XML and JSON hold it.
type lineDoc struct {
	Method int64 // index
	Offset int64 // signed
	Line   int64
}

var lineColumns = columns[lineDoc]{
	{name: "method", at: func(d *lineDoc) *int64 { return &d.Method }, absent: noMethod},
	{name: "offset", at: func(d *lineDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "line", at: func(d *lineDoc) *int64 { return &d.Line }},
}

// lines returns the lines of the positions in the document, by method and offset. Names
// may know lines of other maps' positions, or of pruned ones.
func (c *canonical) lines() iter.Seq[*lineDoc] {
	if !slices.ContainsFunc(c.methods, hasLines) {
		return each[lineDoc](nil)
	}
	var lines []lineDoc
	met := make(map[frame]bool)
	for f := range c.positions() {
		if !hasLines(c.methods[f.method]) || met[f] {
			continue
		}
		met[f] = true
		if line := c.line(f); line != 0 {
			lines = append(lines, lineDoc{int64(f.method), int64(int32(f.offset)), int64(line)})
		}
	}
	slices.SortFunc(lines, func(a, b lineDoc) int {
		return cmp.Or(cmp.Compare(a.Method, b.Method), cmp.Compare(uint32(a.Offset), uint32(b.Offset)))
	})
	return each(lines)
}

// hasLines reports whether lines of the method's positions are to be written down.
func hasLines(m ccmap.Method) bool { return m.Coordinate != ccmap.CoordinateLine }

// line returns the line of a position, 0 where it is unknown.
func (c *canonical) line(f frame) int32 {
	return c.snapshot.Names().Line(ccmap.Frame{Method: c.ids[f.method], Offset: f.offset})
}

// positions returns those of all nodes and points, and of what was pruned; some many
// times.
func (c *canonical) positions() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		for n := range c.childNodes() {
			if n.Offset != ccmap.NoOffset && !yield(frame{int(c.rank[c.snapshot.Node(n.Parent).Method]), n.Offset}) {
				return
			}
		}
		for i := range c.points {
			for f := range pointFrames(&c.points[i]) {
				if !yield(frame{int(f.Method), f.Offset}) {
					return
				}
			}
		}
		if !c.hasEvicted {
			return
		}
		for e := range c.snapshot.PrunedEdges() {
			if e.Caller != ccmap.NoMethod && !yield(frame{int(c.rank[e.Caller]), e.Offset}) {
				return
			}
		}
	}
}

// pointFrames returns the positions that a point names.
func pointFrames(p *ccmap.Point) iter.Seq[ccmap.Frame] {
	return func(yield func(ccmap.Frame) bool) {
		if !yield(ccmap.Frame{Method: p.Method, Offset: p.Offset}) || !yield(ccmap.Frame{Method: p.Method, Offset: p.End}) {
			return
		}
		for _, f := range p.Callers {
			if !yield(f) {
				return
			}
		}
		for _, v := range p.Values {
			if p.Kind == ccmap.PointSwitch && !yield(ccmap.Frame{Method: p.Method, Offset: uint32(v.Value)}) {
				return
			}
		}
	}
}

// addLine adds the next line of a document. No position has two.
func (b *builder) addLine(d *lineDoc) error {
	f, err := b.lineFrame(d)
	if err != nil {
		return fmt.Errorf("line %d: %w", b.lines, err)
	}
	b.lines++
	b.m.Names().SetLine(f, int32(d.Line))
	return b.afford()
}

func (b *builder) lineFrame(d *lineDoc) (f ccmap.Frame, err error) {
	if f.Method, err = b.method(d.Method); err != nil {
		return f, err
	}
	if f.Offset, err = offset32(d.Offset); err != nil {
		return f, err
	}
	switch {
	case f.Method == ccmap.NoMethod || f.Offset == ccmap.NoOffset:
		return f, errors.New("it is that of no position")
	case !hasLines(b.m.Names().At(f.Method)):
		return f, fmt.Errorf("positions of method %d are lines", d.Method)
	case d.Line < 1 || d.Line != int64(int32(d.Line)):
		return f, fmt.Errorf("it is %d, want 1 or more", d.Line)
	case b.m.Names().Line(f) != 0:
		return f, errors.New("its position has one")
	case b.lines == b.limits.MaxNodes:
		return f, fmt.Errorf("%w: more than %d", ErrTooLarge, b.limits.MaxNodes)
	}
	return f, nil
}
