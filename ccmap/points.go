package ccmap

import (
	"cmp"
	"fmt"
	"slices"
)

// Origin says who counted what a [Point] holds.
type Origin uint8

const (
	OriginSampled  Origin = iota // CPU samples: Count is samples
	OriginBurst                  // calls that breakpoints caught: Count is calls
	OriginImported               // counters that the program kept itself, such as Go's coverage files
)

// origins and pointKinds are how many there are.
const (
	origins    = OriginImported + 1
	pointKinds = PointSwitch + 1
)

// String returns the name of the origin, for example "burst".
func (o Origin) String() string {
	switch o {
	case OriginSampled:
		return "sampled"
	case OriginBurst:
		return "burst"
	case OriginImported:
		return "imported"
	}
	return fmt.Sprintf("origin %d", uint8(o))
}

// PointKind says what is profiled at a [Point].
type PointKind uint8

const (
	PointCall   PointKind = iota // a call: the values are the methods it reached
	PointBlock                   // straight code: no values
	PointBranch                  // a condition: the values are 1, taken, and 0, untaken
	PointSwitch                  // a choice: the values are its cases
)

// String returns the name of the kind, for example "call".
func (k PointKind) String() string {
	switch k {
	case PointCall:
		return "call"
	case PointBlock:
		return "block"
	case PointBranch:
		return "branch"
	case PointSwitch:
		return "switch"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MaxPointCallers is the length of the longest context of a [Point].
const MaxPointCallers = 3

// NullsUnknown is the value of [Point.Nulls] where the source does not see them.
const NullsUnknown = -1

// Point is a profile point (HotSpot's): what was seen of one position of a method,
// in any context or in one.
type Point struct {
	Origin Origin
	Kind   PointKind
	Method MethodID
	Offset uint32 // position in the method, as in a [Frame]
	End    uint32 // offset of the last line of a block or branch; else Offset
	Phase  uint32 // of the program when it was counted: how often it had drifted before

	// Callers is the context: the callers at their calls, innermost first, at most
	// MaxPointCallers, fewer where the stack ends; empty, but not nil, where Method
	// is the outermost frame. Nil means any context.
	Callers []Frame

	Count  int64        // executions that were seen: the sum of all below, if anything is known of values
	Values []PointValue // that were seen, the most frequent first, then by value
	Other  int64        // of values that are not in Values
	Aged   int64        // of any value, forgotten by earlier versions that had no room for them
	Nulls  int64        // null receivers, or NullsUnknown
}

// KnowsValues reports whether anything is known of the values of p, so that its
// Count is the sum of Values, Other, Aged and known Nulls.
func (p Point) KnowsValues() bool {
	return len(p.Values) > 0 || p.Other > 0 || p.Aged > 0 || p.Nulls > 0
}

// Compare orders points by what they are, whatever they count: by origin, kind,
// method, offset, end, context and phase. Any context comes before others. Two that
// are equal are the same point.
func (p Point) Compare(q Point) int { return p.compare(&q) }

func (p *Point) compare(q *Point) int {
	switch {
	case p.Origin != q.Origin:
		return cmp.Compare(p.Origin, q.Origin)
	case p.Kind != q.Kind:
		return cmp.Compare(p.Kind, q.Kind)
	case p.Method != q.Method:
		return cmp.Compare(p.Method, q.Method)
	case p.Offset != q.Offset:
		return cmp.Compare(p.Offset, q.Offset)
	case p.End != q.End:
		return cmp.Compare(p.End, q.End)
	}
	return cmp.Or(compareContexts(p.Callers, q.Callers), cmp.Compare(p.Phase, q.Phase))
}

// compareContexts orders contexts caller by caller, the shorter one first.
func compareContexts(a, b []Frame) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return slices.CompareFunc(a, b, func(x, y Frame) int {
		return cmp.Or(cmp.Compare(x.Method, y.Method), cmp.Compare(x.Offset, y.Offset))
	})
}

// PointValue is one value and how often it was seen. The value of a call is the
// MethodID of the method that it reached, whose Receiver is the receiver's type.
type PointValue struct {
	Value uint64
	Count int64
}

// Compare orders values as a point has them: the most frequent first.
func (v PointValue) Compare(w PointValue) int {
	return cmp.Or(cmp.Compare(w.Count, v.Count), cmp.Compare(v.Value, w.Value))
}
