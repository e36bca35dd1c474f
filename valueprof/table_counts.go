package valueprof

import (
	"cmp"
	"slices"
)

// AppendValues appends the values held to dst, highest count first, ties by
// value.
func (t *Table) AppendValues(dst []Value) []Value {
	start := len(dst)
	for _, s := range t.held() {
		if s.Count > 0 {
			dst = append(dst, s)
		}
	}
	sortValues(dst[start:])
	return dst
}

// sortValues puts the highest count first, and the lower value first of two that
// were seen as often.
func sortValues(values []Value) {
	slices.SortFunc(values, func(a, b Value) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
}

// Matched returns the sum of the counts of the values held.
func (t *Table) Matched() uint64 {
	var sum uint64
	for _, s := range t.held() {
		sum += s.Count
	}
	return sum
}

// Other returns how often values were seen that the table has no slot for.
func (t *Table) Other() uint64 { return t.other }

// Aged returns the counts that Decay and Reset have taken away.
func (t *Table) Aged() uint64 { return t.aged }

// Total returns how often any value was counted: Matched + Other + Aged.
func (t *Table) Total() uint64 { return t.Matched() + t.other + t.aged }

// Full reports whether new values go to other: the table holds as many values
// as it can, or one came that the hash cannot tell from those held. Decay and
// Reset make room.
func (t *Table) Full() bool { return t.full }

// Cap returns the number of values that the table can hold.
func (t *Table) Cap() int { return int(t.capacity) }

// Hash returns the hash in use, never HashAuto.
func (t *Table) Hash() Hash { return t.hash }

// Bytes returns the memory of the table.
func (t *Table) Bytes() int {
	return int(tableBytes) + int(t.capacity)*int(slotBytes) + t.indexBytes()
}
