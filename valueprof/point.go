package valueprof

import (
	"cmp"
	"slices"
	"unsafe"
)

// PointView is the state of one profile point.
type PointView struct {
	Site   Site
	Count  uint64  // calls: the sum of all below
	Values []Value // the most frequent first, then by value
	Other  uint64  // calls that reached other values
}

// inlineValues is the number of values that a point holds without a table:
// HotSpot's TypeProfileWidth.
const inlineValues = 2

// point is a profile point, in one cache line. Most sites only ever see one or two
// values, which are held inline. From the third distinct value on a table holds the
// frequent ones.
//
// A free place has the value 0 and the count 0. A lookup of 0 may find a free place
// and count there: the place then belongs to the value 0.
type point struct {
	Site
	table  *pointTable // nil: the values are inline
	inline [inlineValues]Value
}

// pointTable is the table of a point, the counts that are not in the table, and the
// janitor's notes.
type pointTable struct {
	*Table
	point    *point
	overflow []Value // counts that left the table or never had a slot, sorted by value
	named    uint64  // the sum of overflow
	last     lastLook
	due      bool // had no slot for a value since the last look
}

// The memory of the parts of a profile, in bytes.
const (
	pointBytes      = (int(unsafe.Sizeof(point{})) + 15) &^ 15 // as Go allocates it
	pointTableBytes = int(unsafe.Sizeof(pointTable{}))         // without its Table
	pointerBytes    = int(unsafe.Sizeof((*point)(nil)))
)

// hit counts v if the point knows it, and reports whether it did.
func (pt *point) hit(v uint64) bool {
	if pt.table != nil {
		return pt.table.Hit(v)
	}
	for i := range pt.inline {
		if pt.inline[i].Value == v {
			pt.inline[i].Count++
			return true
		}
	}
	return false
}

// place counts v in a free place, and reports whether there was one.
func (pt *point) place(v uint64) bool {
	for i := range pt.inline {
		if pt.inline[i].Count == 0 {
			pt.inline[i] = Value{Value: v, Count: 1}
			return true
		}
	}
	return false
}

// spill moves the inline values to a new table.
func (pt *point) spill(table *Table) *pointTable {
	for _, v := range pt.inline {
		table.AddN(v.Value, v.Count)
	}
	pt.inline = [inlineValues]Value{}
	pt.table = &pointTable{Table: table, point: pt}
	return pt.table
}

// calls returns the number of calls that were counted.
func (pt *point) calls() uint64 {
	if t := pt.table; t != nil {
		return t.Total()
	}
	n := uint64(0)
	for _, v := range pt.inline {
		n += v.Count
	}
	return n
}

// view sets v to the state of the point, and reuses the memory of v.Values.
func (pt *point) view(v *PointView) {
	v.Site, v.Count, v.Values, v.Other = pt.Site, pt.calls(), v.Values[:0], 0
	t := pt.table
	if t == nil {
		v.Values = appendCounted(v.Values, pt.inline[:])
		return
	}
	v.Values = sumUp(append(t.AppendValues(v.Values), t.overflow...))
	v.Other = t.Other() + t.Aged() - t.named
}

// sumUp merges the counts of equal values, and sorts the values, the most frequent
// first.
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

// addOverflow counts n calls of a value in overflow. A new value is kept only if there is
// room. It reports whether it took room.
func (t *pointTable) addOverflow(v, n uint64, room bool) (isNew bool) {
	i, known := slices.BinarySearchFunc(t.overflow, v, func(k Value, v uint64) int { return cmp.Compare(k.Value, v) })
	switch {
	case known:
		t.overflow[i].Count += n
	case room:
		t.overflow = slices.Insert(t.overflow, i, Value{Value: v, Count: n})
	default:
		return false
	}
	t.named += n
	return !known
}

func (t *pointTable) bytes() int {
	return pointTableBytes + t.Bytes() + cap(t.overflow)*int(slotBytes)
}
