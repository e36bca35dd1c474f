package export

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pointsFor returns the points of a snapshot that a format has a place for.
func pointsFor(s *ccmap.Snapshot, f Format) []ccmap.Point {
	points := s.Points()
	if !f.HasAllPoints() {
		points = ccmap.SumPhases(points)
	}
	return slices.DeleteFunc(slices.Clone(points), func(p ccmap.Point) bool { return !f.hasPoint(&p) })
}

// rankPoints gives the points indices of methods for their ids, and the order
// that those have.
func (c *canonical) rankPoints() {
	for i := range c.points {
		p := &c.points[i]
		p.Method = c.rankOf(p.Method)
		p.Callers, p.Values = slices.Clone(p.Callers), slices.Clone(p.Values)
		for j := range p.Callers {
			p.Callers[j].Method = c.rankOf(p.Callers[j].Method)
		}
		if !p.Kind.HasMethods() {
			continue
		}
		for j := range p.Values {
			p.Values[j].Value = uint64(c.rankOf(ccmap.MethodID(p.Values[j].Value)))
		}
		slices.SortFunc(p.Values, ccmap.PointValue.Compare)
	}
	slices.SortFunc(c.points, ccmap.Point.Compare)
}

func (c *canonical) rankOf(id ccmap.MethodID) ccmap.MethodID { return ccmap.MethodID(c.rank[id]) }

// pointMethods returns the methods that a point names.
func pointMethods(p *ccmap.Point) iter.Seq[ccmap.MethodID] {
	return func(yield func(ccmap.MethodID) bool) {
		if !yield(p.Method) {
			return
		}
		for _, f := range p.Callers {
			if !yield(f.Method) {
				return
			}
		}
		for _, v := range p.Values {
			if p.Kind.HasMethods() && !yield(ccmap.MethodID(v.Value)) {
				return
			}
		}
	}
}

// pointDoc is a ccmap.Point as XML and JSON hold it.
type pointDoc struct {
	Origin, Kind              string
	Method                    int64 // index in the methods
	Offset                    int64 // signed; -1 is ccmap.NoOffset
	End                       int64 // signed; sameEnd is Offset
	Phase                     int64
	Count, Other, Aged, Nulls int64      // Nulls: -1 is ccmap.NullsUnknown, -2 ccmap.NullsSeen
	Frozen                    int64      // 1: the source stopped to count
	Context                   []frameDoc // nil is any
	Values                    []valueDoc
}

// sameEnd is no offset.
const sameEnd = math.MinInt64

var pointColumns = newColumns([]column[pointDoc]{
	{name: "method", at: func(d *pointDoc) *int64 { return &d.Method }, absent: noMethod},
	{name: "offset", at: func(d *pointDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "end", at: func(d *pointDoc) *int64 { return &d.End }, absent: sameEnd},
	{name: "phase", at: func(d *pointDoc) *int64 { return &d.Phase }},
	{name: "count", at: func(d *pointDoc) *int64 { return &d.Count }, written: true},
	{name: "other", at: func(d *pointDoc) *int64 { return &d.Other }},
	{name: "aged", at: func(d *pointDoc) *int64 { return &d.Aged }},
	{name: "nulls", at: func(d *pointDoc) *int64 { return &d.Nulls }, absent: ccmap.NullsUnknown},
	{name: "frozen", at: func(d *pointDoc) *int64 { return &d.Frozen }},
})

// frameDoc is a frame that a point names.
type frameDoc struct{ Method, Offset int64 }

var frameColumns = newColumns([]column[frameDoc]{
	{name: "method", at: func(d *frameDoc) *int64 { return &d.Method }, absent: noMethod},
	{name: "offset", at: func(d *frameDoc) *int64 { return &d.Offset }, absent: -1},
})

type valueDoc struct {
	Value int64 // signed; of a call or type the index of the method
	Count int64
}

var valueColumns = newColumns([]column[valueDoc]{
	{name: "value", at: func(d *valueDoc) *int64 { return &d.Value }, written: true, required: true},
	{name: "count", at: func(d *valueDoc) *int64 { return &d.Count }, written: true},
})

// pointDocs returns the points in canonical order.
func (c *canonical) pointDocs() iter.Seq[*pointDoc] {
	return func(yield func(*pointDoc) bool) {
		d := pointDoc{Context: []frameDoc{}}
		for i := range c.points {
			context := d.Context[:0]
			d.set(&c.points[i])
			if !yield(&d) {
				return
			}
			if d.Context == nil {
				d.Context = context
			}
		}
	}
}

// set sets the document of a ranked point, and reuses its lists.
func (d *pointDoc) set(p *ccmap.Point) {
	context, values := d.Context[:0], d.Values[:0]
	*d = pointDoc{
		Origin: p.Origin.String(), Kind: p.Kind.String(),
		Method: int64(p.Method), Offset: int64(int32(p.Offset)), End: sameEnd, Phase: int64(p.Phase),
		Count: p.Count, Other: p.Other, Aged: p.Aged, Nulls: p.Nulls,
	}
	if p.End != p.Offset {
		d.End = int64(int32(p.End))
	}
	if p.Frozen {
		d.Frozen = 1
	}
	for _, f := range p.Callers {
		context = append(context, frameDoc{int64(f.Method), int64(int32(f.Offset))})
	}
	if p.Callers != nil {
		d.Context = context
	}
	for _, v := range p.Values {
		values = append(values, valueDoc{int64(v.Value), v.Count})
	}
	d.Values = values
}

// pointKey is the identity of a point, see [ccmap.Point.Compare].
type pointKey struct {
	origin              ccmap.Origin
	kind                ccmap.PointKind
	inContext           bool
	depth               uint8 // of the context
	method, offset, end uint32
	phase               uint32
	callers             [ccmap.MaxPointCallers]ccmap.Frame
}

// newPointKey returns the key of a valid point.
func newPointKey(p *ccmap.Point) pointKey {
	k := pointKey{
		origin: p.Origin, kind: p.Kind, method: uint32(p.Method), offset: p.Offset, end: p.End, phase: p.Phase,
		inContext: p.Callers != nil, depth: uint8(len(p.Callers)),
	}
	copy(k.callers[:], p.Callers)
	return k
}

// addPoint adds the next point of a document. None stands twice.
func (b *builder) addPoint(d *pointDoc) error {
	p, err := b.point(d)
	if err == nil && b.points[newPointKey(&p)] {
		err = errors.New("it stands twice")
	}
	if err == nil {
		err = b.countPoint(p)
	}
	if err != nil {
		return fmt.Errorf("point %d: %w", len(b.points), err)
	}
	return nil
}

// countPoint adds the counts of a valid point.
func (b *builder) countPoint(p ccmap.Point) error {
	if err := b.note(unsafe.Sizeof(pointKey{})); err != nil {
		return err
	}
	b.points[newPointKey(&p)] = true
	if len(b.points) > b.limits.MaxPoints {
		return fmt.Errorf("%w: more than %d points", ErrTooLarge, b.limits.MaxPoints)
	}
	b.m.AddPoint(p)
	return b.afford()
}

// point returns the point of a document if it is valid.
func (b *builder) point(d *pointDoc) (p ccmap.Point, err error) {
	p = ccmap.Point{Count: d.Count, Other: d.Other, Aged: d.Aged, Nulls: d.Nulls}
	if p.Origin, err = named[ccmap.Origin]("origin", d.Origin, ccmap.OriginVM); err != nil {
		return p, err
	}
	if p.Kind, err = named[ccmap.PointKind]("kind", d.Kind, ccmap.PointNumber); err != nil {
		return p, err
	}
	at, err := b.frame(frameDoc{d.Method, d.Offset})
	if err != nil {
		return p, err
	}
	p.Method, p.Offset, p.End = at.Method, at.Offset, at.Offset
	if d.End != sameEnd {
		if p.End, err = offset32(d.End); err != nil {
			return p, err
		}
	}
	if d.Phase < 0 || d.Phase >= math.MaxUint32 { // people count from 1
		return p, fmt.Errorf("phase %d is outside 0 to 4294967294", d.Phase)
	}
	p.Phase = uint32(d.Phase)
	if d.Frozen < 0 || d.Frozen > 1 {
		return p, fmt.Errorf("frozen is %d, not 0 or 1", d.Frozen)
	}
	p.Frozen = d.Frozen == 1
	if p.Callers, err = b.context(d.Context); err != nil {
		return p, err
	}
	if p.Values, err = b.values(p.Kind, d.Values); err != nil {
		return p, err
	}
	return p, p.CheckValid(b.m.Names())
}

// context returns the callers, which are nil in any context.
func (b *builder) context(docs []frameDoc) ([]ccmap.Frame, error) {
	if docs == nil {
		return nil, nil
	}
	callers := make([]ccmap.Frame, len(docs))
	for i, c := range docs {
		var err error
		if callers[i], err = b.frame(c); err != nil {
			return nil, fmt.Errorf("caller %d: %w", i, err)
		}
	}
	return callers, nil
}

func (b *builder) values(k ccmap.PointKind, docs []valueDoc) ([]ccmap.PointValue, error) {
	var values []ccmap.PointValue
	for i, d := range docs {
		value := uint64(d.Value)
		if k.HasMethods() {
			target, err := b.frame(frameDoc{d.Value, -1})
			if err != nil {
				return nil, fmt.Errorf("value %d: %w", i, err)
			}
			value = uint64(target.Method)
		}
		values = append(values, ccmap.PointValue{Value: value, Count: d.Count})
	}
	slices.SortFunc(values, ccmap.PointValue.Compare)
	return values, nil
}

// frame returns a frame. Its method must be there.
func (b *builder) frame(d frameDoc) (f ccmap.Frame, err error) {
	if f.Method, err = b.method(d.Method); err != nil {
		return f, err
	}
	if f.Method == ccmap.NoMethod {
		return f, errors.New("no method")
	}
	f.Offset, err = offset32(d.Offset)
	return f, err
}

// offset32 returns an offset as maps have it.
func offset32(offset int64) (uint32, error) {
	if offset < math.MinInt32 || offset > math.MaxInt32 {
		return 0, fmt.Errorf("offset %d is outside 32 bits", offset)
	}
	return uint32(offset), nil
}

// named returns the value from 0 to last that has a name.
func named[T interface {
	~uint8
	fmt.Stringer
}](what, name string, last T) (T, error) {
	for v := range last + 1 {
		if v.String() == name {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%s %q is unknown", what, clip(name))
}
