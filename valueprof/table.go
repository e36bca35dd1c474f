package valueprof

import "unsafe"

// A [Table] holds MinCapacity to MaxCapacity values. Fewer are counted without
// a table; more would not fit the sets of [partition], nor be a "small set of
// highly frequent values".
const (
	MinCapacity = 2
	MaxCapacity = 63
)

// Value is a value, and how often it was seen.
type Value struct{ Value, Count uint64 }

// A Table counts the values of one variable: each of the N values that it holds,
// and all others together. 0 and the largest uint64 are values as any other.
//
// New makes it, and it must not be copied. One goroutine owns it: no method may
// run at the same time as another.
//
//	key ─ hash(v) ─▶ position ─▶ index: 1 byte each ─▶ slots: value, count
//
// The slots are dense; the index has a position for each value held, and more. A
// position without a value leads to the first slot as well, and so does every
// position of an empty table, whose first slot has the value 0 with no count:
// what is found there is right, or is not the value looked for. The memory behind
// the two pointers has no other owner. They are not slices because a hit costs
// 0.9 ns this way and 1.3 ns with two bounds checks, and because 8 values then
// need 192 bytes and not 224.
//
// Bytes with HashMultiply, at N = 3, 7, 8, 15, 16, 63: 104, 176, 192, 352, 368,
// 2,080, fixed when the table is made. With the hashes that select bits it
// depends on the values: on heap pointers 188 at N = 8 and 338 at N = 16, in the
// mean, but there are N values that need N-1 bits, an index of 2^(N-1) bytes, up to
// 32 KiB. Bit permute and shift need 16 bytes more, for their list.
//
// Of the seed (OpenJ9, "Value JProfiling") this keeps the table of constant
// capacity, the counter of others, the bits that tell N+1 values apart and
// their rearrangement on insertion, the full flag, and the reset. It does
// without the lock, the poisoned keys and the last move of other during
// rearrangement, since one owner cannot race with itself; without the sign of
// other's index as full flag and other in a free slot, which save an access in
// generated code, where here other is a field that a miss reaches anyway; and
// without a slot for each of 2^N positions, where a byte will do.
type Table struct {
	key      uint64         // multiply: the multiplier; others: the mask of the bits selected
	slots    unsafe.Pointer // *[capacity]Value, n of them in use
	index    unsafe.Pointer // *[1 << bits]uint8, from position to slot; then the bitList of two hashes
	other    uint64
	aged     uint64
	shift    uint8 // 64 - bits
	n        uint8 // ≥ 1
	capacity uint8
	hash     Hash
	full     bool // new values go to other
}

const (
	tableBytes = unsafe.Sizeof(Table{})
	slotBytes  = unsafe.Sizeof(Value{})
)

// New returns an empty table for a number of values, MinCapacity to MaxCapacity;
// a number outside stands for the nearest inside.
func New(capacity int, h Hash) *Table {
	t := new(Table)
	t.init(capacity, h)
	return t
}

// Hit counts v if it finds it at once, and reports whether it did. If not, the
// caller calls Miss:
//
//	if !t.Hit(v) {
//		t.Miss(v)
//	}
//
// Hit is inlined, and for HashMultiply it finds every value held. For the other
// hashes it tries a position that is right for few values, and Miss finds the rest:
// the choice costs them 2 ns, and the default nothing.
func (t *Table) Hit(v uint64) bool {
	s := t.at(v * t.key >> (t.shift & 63))
	if s.Value != v {
		return false
	}
	s.Count++
	return true
}

// at returns the slot that a position leads to.
func (t *Table) at(position uint64) *Value {
	return t.slot(*(*uint8)(unsafe.Add(t.index, position)))
}

func (t *Table) slot(i uint8) *Value {
	return (*Value)(unsafe.Add(t.slots, uintptr(i)*slotBytes))
}

// Miss counts a v that Hit has just refused.
func (t *Table) Miss(v uint64) {
	switch {
	case t.hash == HashMultiply && t.full:
		t.other++
		return
	case t.hash == HashPext && usePext && hitPext(t, v):
		return
	}
	t.AddN(v, 1)
}

// Add counts v once.
func (t *Table) Add(v uint64) {
	if !t.Hit(v) {
		t.Miss(v)
	}
}

// AddN counts v n times. Total must stay below 1<<64: counts wrap beyond.
func (t *Table) AddN(v, n uint64) {
	if n == 0 {
		return
	}
	if s := t.at(t.position(v)); s.Value == v {
		s.Count += n
		return
	}
	if t.full || !t.insert(v) {
		t.other += n
		return
	}
	t.slot(t.n - 1).Count = n
}
