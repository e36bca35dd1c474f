package valueprof

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// inlineValues is the number of values that a point holds without a table:
// HotSpot's TypeProfileWidth.
const inlineValues = 2

// point is a profile point, in one cache line. Most sites only ever see one or two
// values, which are held inline. From the third distinct value on a table holds the
// frequent ones.
type point struct {
	Site
	table  *pointTable // nil: the values are inline
	inline pair
}

// pair holds the first two values of a point.
//
// A place with the count 0 is free. A lookup may find its old value, 0 at first, and
// count there: the place then belongs to that value again.
type pair [inlineValues]Value

// hit counts v if the pair holds it, and reports whether it did.
func (p *pair) hit(v uint64) bool {
	switch v {
	case p[0].Value:
		p[0].Count++
	case p[1].Value:
		p[1].Count++
	default:
		return false
	}
	return true
}

// place counts v in a free place, and reports whether there was one.
func (p *pair) place(v uint64) bool {
	for i := range p {
		if p[i].Count == 0 {
			p[i] = Value{Value: v, Count: 1}
			return true
		}
	}
	return false
}

func (p *pair) sum() (n int64) {
	for _, v := range p {
		n += v.Count
	}
	return n
}

// pointTable is the table of a point, the counts that are not in the table, and the
// janitor's notes.
type pointTable struct {
	*Table
	point    *point
	overflow []Value // counts that left the table or never had a slot, sorted by value
	named    int64   // the sum of overflow
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
	return pt.inline.hit(v)
}

// spill moves the inline values to a new table.
func (pt *point) spill(table *Table) *pointTable {
	for _, v := range pt.inline {
		table.AddN(v.Value, v.Count)
	}
	pt.inline = pair{}
	pt.table = &pointTable{Table: table, point: pt}
	return pt.table
}

// calls returns the number of calls that were counted.
func (pt *point) calls() int64 {
	if t := pt.table; t != nil {
		return t.Total()
	}
	return pt.inline.sum()
}

// profilePoint returns the state of the point without its context. A call on a nil
// interface panics before it is made, so null receivers are never seen.
func (pt *point) profilePoint() ccmap.Point {
	p := ccmap.Point{
		Origin: ccmap.OriginBurst, Kind: ccmap.PointCall,
		Method: ccmap.MethodID(pt.Method), Offset: pt.Offset, End: pt.Offset,
		Count: pt.calls(), Nulls: ccmap.NullsUnknown,
	}
	held := pt.inline[:]
	if t := pt.table; t != nil {
		held = t.held()
		p.Other = t.Other() + t.Aged() - t.named
		p.Values = make([]Value, 0, len(held)+len(t.overflow))
		p.Values = append(p.Values, t.overflow...)
	}
	p.Values = ccmap.SumValues(appendCounted(p.Values, held))
	return p
}

// addOverflow counts n calls of a value in overflow. A new value is kept only if there is
// room. It reports whether it took room.
func (t *pointTable) addOverflow(v uint64, n int64, room bool) (isNew bool) {
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
