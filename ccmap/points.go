package ccmap

// Origin says who counted what a [Point] holds.
type Origin uint8

const (
	OriginSampled  Origin = iota // CPU samples: Count is samples
	OriginBurst                  // calls that breakpoints caught: Count is calls
	OriginImported               // counters that the program kept itself, such as Go's coverage files
)

// PointKind says what is profiled at a [Point].
type PointKind uint8

const (
	PointCall   PointKind = iota // a call: the values are the methods it reached
	PointBlock                   // straight code: no values
	PointBranch                  // a condition: the values are 1, taken, and 0, untaken
	PointSwitch                  // a choice: the values are its cases
)

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

	// Callers is the context: the callers at their calls, innermost first, at most
	// MaxPointCallers, fewer where the stack ends. Nil means any context.
	Callers []Frame

	Count  int64        // executions that were seen: the sum of all below, if there are values
	Values []PointValue // the most frequent first, then by value
	Other  int64        // of values that are not in Values
	Aged   int64        // of any value, forgotten to make room for what is frequent now
	Nulls  int64        // null receivers, or NullsUnknown
}

// PointValue is one value and how often it was seen. The value of a call is the
// MethodID of the method that it reached, whose Receiver is the receiver's type.
type PointValue struct {
	Value uint64
	Count int64
}
