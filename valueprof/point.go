package valueprof

// Site is where something is profiled: a position of a method, in a calling
// context or in any.
type Site struct {
	Method  uint32 // an id of the caller's
	Offset  uint32 // position in the method
	Context uint32 // an id that the caller gives to a calling context; 0: any
}

// Kind says what is profiled at a [Site]. One site can have a point of each kind.
type Kind uint8

const (
	KindCall   Kind = iota // a call: the values are its targets, or the types of its receivers
	KindBlock              // straight code: executions only, no values
	KindBranch             // a condition: the values are 1, taken, and 0, untaken
	KindSwitch             // a choice: the values are its cases
)

var kindNames = [...]string{KindCall: "call", KindBlock: "block", KindBranch: "branch", KindSwitch: "switch"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// key is what a point is found by.
type key struct {
	Site
	kind Kind
}

// inlineValues is how many values a point holds without a table: HotSpot's
// TypeProfileWidth.
const inlineValues = 2

// point is a profile point, in one cache line. Most sites ever see one or two
// values, which are held inline; from the third distinct one on a table holds
// all of them. A block counts in inline[0].
//
// A free place has the value 0 and the count 0. That a 0 is found there is right:
// the place becomes its own.
type point struct {
	key
	table  *tended // nil: the values are inline
	inline [inlineValues]Value
	nulls  uint64
}

// tended is the table of a point with what the janitor has to know of it.
type tended struct {
	table *Table
	point *point
	body  *body
	seen  sight
	due   bool // in body.due: was added to in vain since the last look
}

// hit counts v if it is known here.
func (pt *point) hit(v uint64) bool {
	if pt.table != nil {
		return pt.table.table.Hit(v)
	}
	for i := range pt.inline {
		if pt.inline[i].Value == v {
			pt.inline[i].Count++
			return true
		}
	}
	return false
}

// place counts v in a free place, if there is one.
func (pt *point) place(v uint64) bool {
	for i := range pt.inline {
		if pt.inline[i].Count == 0 {
			pt.inline[i] = Value{Value: v, Count: 1}
			return true
		}
	}
	return false
}

// spill moves the inline values to a table.
func (pt *point) spill(t *tended) {
	for _, v := range pt.inline {
		t.table.AddN(v.Value, v.Count)
	}
	pt.inline = [inlineValues]Value{}
	pt.table = t
	t.point = pt
}

// executions is how often the point was executed.
func (pt *point) executions() uint64 {
	n := pt.nulls
	for _, v := range pt.inline {
		n += v.Count
	}
	if pt.table != nil {
		n += pt.table.table.Total()
	}
	return n
}

// PointView is what is known of one profile point.
type PointView struct {
	Site Site
	Kind Kind

	// Count is how often the point was executed. But for a block, which has no
	// values, it is the sum of all below, with unknown Nulls as 0.
	Count  uint64
	Values []Value // the most frequent first, then by value
	Other  uint64  // of values that are not in Values
	Aged   uint64  // of any value, taken away by the janitor
	Nulls  int64   // null receivers, or NullsUnknown
}

// NullsUnknown is the value of [PointView.Nulls] where none was reported: a source
// that would see them is not told from one that does not.
const NullsUnknown = -1

// view sets v to what is known of the point; v.Values is used again.
func (pt *point) view(v *PointView) {
	v.Site, v.Kind, v.Count = pt.Site, pt.kind, pt.executions()
	v.Values, v.Other, v.Aged, v.Nulls = v.Values[:0], 0, 0, NullsUnknown
	if pt.nulls > 0 {
		v.Nulls = int64(pt.nulls)
	}
	if t := pt.table; t != nil {
		v.Values = t.table.AppendValues(v.Values)
		v.Other, v.Aged = t.table.Other(), t.table.Aged()
	} else if pt.kind != KindBlock {
		v.Values = pt.appendInline(v.Values)
	}
}

func (pt *point) appendInline(to []Value) []Value {
	for _, v := range pt.inline {
		if v.Count > 0 {
			to = append(to, v)
		}
	}
	sortValues(to)
	return to
}
