package valueprof

import (
	"cmp"
	"fmt"
	"slices"
)

// Site is a call site: a position of a method, in a calling context or in any.
type Site struct {
	Method  uint32 // an id of the caller's
	Offset  uint32 // position in the method
	Context uint32 // an id that the caller gives to a calling context; 0: any
}

// String gives the numbers of a site as method+offset, with @context if it has one.
func (s Site) String() string {
	if s.Context == 0 {
		return fmt.Sprintf("%d+%d", s.Method, s.Offset)
	}
	return fmt.Sprintf("%d+%d@%d", s.Method, s.Offset, s.Context)
}

// inlineValues is how many values a point holds without a table: HotSpot's
// TypeProfileWidth.
const inlineValues = 2

// point is a profile point, in one cache line. Most sites ever see one or two
// values, which are held inline; from the third distinct one on a table holds
// the frequent ones.
//
// A free place has the value 0 and the count 0. That a 0 is found there is right:
// the place becomes its own.
type point struct {
	Site
	table  *tended // nil: the values are inline
	inline [inlineValues]Value
}

// tended is the table of a point, the counts that have left it, and the janitor's
// notes.
type tended struct {
	table *Table
	point *point
	kept  []Value // counts that are not in the table, by value
	named uint64  // their sum
	seen  sight
	due   bool // had no slot for a value since the last look
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

// calls is how many calls of the site were counted.
func (pt *point) calls() uint64 {
	if t := pt.table; t != nil {
		return t.table.Total()
	}
	n := uint64(0)
	for _, v := range pt.inline {
		n += v.Count
	}
	return n
}

// keep counts n calls of a value that are not in the table. A value that is new needs
// room; keep reports whether it took some.
func (t *tended) keep(v, n uint64, room bool) (isNew bool) {
	i, known := slices.BinarySearchFunc(t.kept, v, func(k Value, v uint64) int { return cmp.Compare(k.Value, v) })
	switch {
	case known:
		t.kept[i].Count += n
	case room:
		t.kept = slices.Insert(t.kept, i, Value{Value: v, Count: n})
	default:
		return false
	}
	t.named += n
	return !known
}

// PointView is the state of one profile point.
type PointView struct {
	Site   Site
	Count  uint64  // calls: the sum of all below
	Values []Value // the most frequent first, then by value
	Other  uint64  // calls that reached other values
}

// view sets v to the state of the point; v.Values is used again.
func (pt *point) view(v *PointView) {
	v.Site, v.Count, v.Values, v.Other = pt.Site, pt.calls(), v.Values[:0], 0
	t := pt.table
	if t == nil {
		v.Values = appendCounted(v.Values, pt.inline[:])
		return
	}
	v.Values = sumUp(append(appendCounted(v.Values, t.table.held()), t.kept...))
	v.Other = t.table.Other() + t.table.Aged() - t.named
}

func appendCounted(to, values []Value) []Value {
	for _, v := range values {
		if v.Count > 0 {
			to = append(to, v)
		}
	}
	sortValues(to)
	return to
}

// sumUp makes the counts of equal values one, and puts the most frequent first.
func sumUp(values []Value) []Value {
	slices.SortFunc(values, func(a, b Value) int { return cmp.Compare(a.Value, b.Value) })
	sums := values[:0]
	for _, v := range values {
		if n := len(sums); n > 0 && sums[n-1].Value == v.Value {
			sums[n-1].Count += v.Count
		} else {
			sums = append(sums, v)
		}
	}
	sortValues(sums)
	return sums
}
