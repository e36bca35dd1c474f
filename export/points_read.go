package export

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pointDoc is a ccmap.Point as XML and JSON hold it. What is left out is nil.
type pointDoc struct {
	Origin  string      `json:"origin"`
	Kind    string      `json:"kind"`
	Method  *int64      `json:"method"` // index in the methods
	Offset  *int64      `json:"offset"` // signed; nil is ccmap.NoOffset
	End     *int64      `json:"end"`    // signed; nil is Offset
	Phase   *int64      `json:"phase"`  // nil is 0
	Count   *int64      `json:"count"`
	Other   *int64      `json:"other"`
	Aged    *int64      `json:"aged"`
	Nulls   *int64      `json:"nulls"`   // nil is ccmap.NullsUnknown
	Context []callerDoc `json:"context"` // nil is any
	Values  []valueDoc  `json:"values"`
}

type callerDoc struct {
	Method *int64 `json:"method" xml:"method,attr"`
	Offset *int64 `json:"offset,omitempty" xml:"offset,attr"`
}

type valueDoc struct {
	Value *int64 `json:"value"` // signed; of a call the index of the method
	Count *int64 `json:"count"`
}

// pointKey is what a point is, see [ccmap.Point.Compare].
type pointKey struct {
	origin              ccmap.Origin
	kind                ccmap.PointKind
	inContext           bool
	depth               uint8 // of the context
	method, offset, end uint32
	phase               uint32
	callers             [ccmap.MaxPointCallers]ccmap.Frame
}

// newPointKey returns that of a valid point.
func newPointKey(p *ccmap.Point) pointKey {
	k := pointKey{
		origin: p.Origin, kind: p.Kind, method: uint32(p.Method), offset: p.Offset, end: p.End, phase: p.Phase,
		inContext: p.Callers != nil, depth: uint8(len(p.Callers)),
	}
	copy(k.callers[:], p.Callers)
	return k
}

// addPoint adds the next point of a document. None stands twice.
func (b *builder) addPoint(d pointDoc) error {
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

// countPoint adds what a valid point counts.
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
func (b *builder) point(d pointDoc) (p ccmap.Point, err error) {
	p = ccmap.Point{
		Count: orElse(d.Count, 0), Other: orElse(d.Other, 0), Aged: orElse(d.Aged, 0),
		Nulls: orElse(d.Nulls, ccmap.NullsUnknown),
	}
	if p.Origin, err = named[ccmap.Origin]("origin", d.Origin, ccmap.OriginImported); err != nil {
		return p, err
	}
	if p.Kind, err = named[ccmap.PointKind]("kind", d.Kind, ccmap.PointSwitch); err != nil {
		return p, err
	}
	at, err := b.frame(d.Method, d.Offset)
	if err != nil {
		return p, err
	}
	p.Method, p.Offset, p.End = at.Method, at.Offset, at.Offset
	if d.End != nil {
		if p.End, err = offset32(*d.End); err != nil {
			return p, err
		}
	}
	if phase := orElse(d.Phase, 0); phase >= 0 && phase < math.MaxUint32 { // people count from 1
		p.Phase = uint32(phase)
	} else {
		return p, fmt.Errorf("phase %d is outside 0 to 4294967294", phase)
	}
	if p.Callers, err = b.context(d.Context); err != nil {
		return p, err
	}
	if p.Values, err = b.values(p.Kind, d.Values); err != nil {
		return p, err
	}
	return p, p.CheckValid(b.m.Names())
}

// context returns the callers, which are nil in any context.
func (b *builder) context(docs []callerDoc) ([]ccmap.Frame, error) {
	if docs == nil {
		return nil, nil
	}
	callers := make([]ccmap.Frame, len(docs))
	for i, c := range docs {
		var err error
		if callers[i], err = b.frame(c.Method, c.Offset); err != nil {
			return nil, fmt.Errorf("caller %d: %w", i, err)
		}
	}
	return callers, nil
}

func (b *builder) values(k ccmap.PointKind, docs []valueDoc) ([]ccmap.PointValue, error) {
	var values []ccmap.PointValue
	for i, d := range docs {
		if d.Value == nil {
			return nil, fmt.Errorf("value %d is missing", i)
		}
		value := uint64(*d.Value)
		if k == ccmap.PointCall {
			target, err := b.frame(d.Value, nil)
			if err != nil {
				return nil, fmt.Errorf("value %d: %w", i, err)
			}
			value = uint64(target.Method)
		}
		values = append(values, ccmap.PointValue{Value: value, Count: orElse(d.Count, 0)})
	}
	slices.SortFunc(values, ccmap.PointValue.Compare)
	return values, nil
}

// frame returns the frame of a method that must be there, by its index.
func (b *builder) frame(method, offset *int64) (f ccmap.Frame, err error) {
	if f.Method, err = b.method(orElse(method, noMethod)); err != nil {
		return f, err
	}
	if f.Method == ccmap.NoMethod {
		return f, errors.New("no method")
	}
	f.Offset, err = offset32(orElse(offset, -1))
	return f, err
}

// offset32 returns an offset as maps have it.
func offset32(offset int64) (uint32, error) {
	if offset < math.MinInt32 || offset > math.MaxInt32 {
		return 0, fmt.Errorf("offset %d is outside 32 bits", offset)
	}
	return uint32(offset), nil
}

func orElse(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
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
