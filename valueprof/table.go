package valueprof

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// A [Table] holds MinCapacity to MaxCapacity values. A smaller number needs no
// table. A larger number does not fit the sets of [partition], and is no longer a
// "small set of highly frequent values".
const (
	MinCapacity = 2
	MaxCapacity = 63
)

// Value is a value and the number of times that it was seen, as profile points hold it.
type Value = ccmap.PointValue

// A Table counts the values of one variable: N values one by one, and all other
// values together. 0 and the largest uint64 are ordinary values.
//
// New makes a table, which must not be copied. One goroutine owns the table: no two
// methods may run at the same time.
//
//	key ─ hash(v) ─▶ position ─▶ index: 1 byte each ─▶ slots: value, count
//
// The slots are dense. The index has a position for each value held, and spare
// positions, which lead to the first slot. In an empty table all positions lead
// there, and the first slot has the value 0 and the count 0. So a lookup finds
// either the right value or a different one. Only the table refers to the memory of
// index and slots. They are pointers and not slices because a hit costs 0.9 ns this
// way and 1.3 ns with two bounds checks, and because 8 values then need 192 bytes
// and not 224.
//
// Bytes with HashMultiply, at N = 3, 7, 8, 15, 16, 63: 104, 176, 192, 352, 368,
// 2,080, fixed when the table is made. With the hashes that select bits the size
// depends on the values. Heap pointers take 188 bytes at N = 8 and 338 at N = 16 in
// the mean. The worst N values need N-1 bits, an index of 2^(N-1) bytes, up to
// 32 KiB. Bit permute and shift need 16 bytes more, for their list.
//
// The table follows its model (OpenJ9, "Value JProfiling") in the constant capacity,
// the counter of others, the bits that tell N+1 values apart and their rearrangement
// on insertion, the full flag, and the reset. It has one owner, so it omits the lock,
// the poisoned keys and the last move of other during rearrangement. It omits two
// tricks that save an access in generated code: the sign of other's index as full
// flag, and other in a free slot. Here a miss reaches the field other anyway. And it
// has a byte, not a slot, for each of the 2^N positions.
type Table struct {
	key      uint64         // HashMultiply: the multiplier; others: the mask of selected bits
	slots    unsafe.Pointer // *[capacity]Value, n of them in use
	index    unsafe.Pointer // *[1 << bits]uint8, from position to slot; then the bitList of two hashes
	other    int64
	aged     int64
	shift    uint8 // 64 - bits
	n        uint8 // ≥ 1
	capacity uint8
	hash     Hash
	full     bool // new values count as other
}

const (
	tableBytes = unsafe.Sizeof(Table{})
	slotBytes  = unsafe.Sizeof(Value{})
)

// New returns an empty table for a number of values, MinCapacity to MaxCapacity. A
// number outside that range stands for the nearest number inside.
func New(capacity int, h Hash) *Table {
	capacity = min(max(capacity, MinCapacity), MaxCapacity)
	t := &Table{capacity: uint8(capacity), hash: h.Resolve(), n: 1}
	t.slots = unsafe.Pointer(unsafe.SliceData(make([]Value, capacity)))
	bits := 0
	if t.hash == HashMultiply {
		bits = multiplyBits(capacity)
	}
	t.makeIndex(bits)
	return t
}

// Hit counts v if it finds v at once, and reports whether it did. If not, the
// caller calls Miss:
//
//	if !t.Hit(v) {
//		t.Miss(v)
//	}
//
// Hit is inlined, and with HashMultiply it finds every value held. With the other
// hashes it tries a position that is right for few values, and Miss finds the rest.
// This costs the other hashes 2 ns, and the default nothing.
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

// AddN counts v n times, n ≥ 0. Total must stay below 1<<63, where counts wrap.
func (t *Table) AddN(v uint64, n int64) {
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

// position returns the position of v in the index.
func (t *Table) position(v uint64) uint64 {
	switch t.hash {
	case HashMultiply:
		return v * t.key >> (t.shift & 63)
	case HashBitPermute:
		return t.bitList().permuted(v, t.bits())
	case HashShift:
		return t.bitList().shifted(v, t.bits())
	}
	if usePext {
		return pext(v, t.key)
	}
	return gather(v, t.key)
}

// insert gives v a slot with the count 0, and reports whether it could. If the
// position of v is taken, insert rearranges all values.
func (t *Table) insert(v uint64) bool {
	if t.empty() {
		t.n = 0
	}
	p := t.position(v)
	free := t.n == 0 || t.position(t.at(p).Value) != p
	*t.slot(t.n) = Value{Value: v}
	t.n++
	switch {
	case free:
		t.positions()[p] = t.n - 1
	case !t.separate():
		t.n--
		t.full = true
		return false
	}
	t.full = t.n == t.capacity
	return true
}

// separate changes the key so that each value held has a position of its own, and
// reports whether it could.
func (t *Table) separate() bool {
	if t.hash == HashMultiply {
		if !t.searchMultiplier() {
			return false
		}
	} else if !t.selectBits() {
		return false
	}
	t.reindex()
	return true
}

// reindex enters the values held into the index.
func (t *Table) reindex() {
	p := t.positions()
	clear(p)
	for i, s := range t.held() {
		p[t.position(s.Value)] = uint8(i)
	}
}

// makeIndex makes an index of 1 << bits positions, which all lead to the first
// slot. An empty position may lead there: the value in the first slot has another
// position, so it is never taken for the value looked up.
func (t *Table) makeIndex(bits int) {
	t.shift = uint8(64 - bits)
	t.index = unsafe.Pointer(unsafe.SliceData(make([]uint8, t.indexBytes())))
}

// indexBytes returns the length of the index and of the list after it.
func (t *Table) indexBytes() int {
	n := 1 << t.bits()
	if t.hasList() {
		n += int(bitListBytes)
	}
	return n
}

// bits returns the binary logarithm of the number of positions.
func (t *Table) bits() uint8 { return 64 - t.shift }

func (t *Table) positions() []uint8 { return unsafe.Slice((*uint8)(t.index), 1<<t.bits()) }

// empty reports whether the table holds no value: the one slot in use is free. More slots
// without a count are values whose counts were taken.
func (t *Table) empty() bool { return t.n == 1 && t.slot(0).Count == 0 }

// held returns the slots in use.
func (t *Table) held() []Value { return unsafe.Slice((*Value)(t.slots), t.n) }

// Seed arranges an empty table for values that are expected, such as those of an earlier run: they will get their slots
// without a search for a new arrangement. It counts nothing, so the values that come are counted as without it. Values
// beyond the capacity count for nothing, and so does a table that is not empty.
func (t *Table) Seed(values []Value) {
	if t.Total() != 0 || t.full {
		return
	}
	for _, v := range values {
		if t.full {
			break
		}
		t.AddN(v.Value, 1)
	}
	t.Reset(nil)
	t.aged = 0
}

// Decay makes room for values that have become frequent. It halves every count and
// other, and drops the weakest quarter of the values, at least one. Aged grows by the
// counts that are taken away, so Total stays. Decay reports these counts to gone, by
// value, but not the counts of other, which have no value. A value may come twice.
// Gone may be nil.
func (t *Table) Decay(gone func(Value)) {
	held := t.held()
	for i := range held {
		t.age(Value{Value: held[i].Value, Count: halve(&held[i].Count)}, gone)
	}
	t.aged += halve(&t.other)
	slices.SortFunc(held, Value.Compare)
	t.keep(len(held)-(len(held)+3)/4, gone)
}

// Reset clears all values and other, as OpenJ9 does, so that the next values fill
// the table again. It reports counts to gone as Decay does.
func (t *Table) Reset(gone func(Value)) {
	t.aged += t.other
	t.other = 0
	t.keep(0, gone)
}

// age adds counts that are taken from a value to aged.
func (t *Table) age(taken Value, gone func(Value)) {
	t.aged += taken.Count
	if gone != nil && taken.Count > 0 {
		gone(taken)
	}
}

// halve halves a count, rounding down, and returns the part that it takes away.
func halve(count *int64) int64 {
	gone := *count - *count/2
	*count /= 2
	return gone
}

// keep drops the values after the first n, and the values without a count. The
// counts must fall from slot to slot, unless n is 0. The key stays: it separates
// fewer values as well.
func (t *Table) keep(n int, gone func(Value)) {
	held := t.held()
	for n > 0 && held[n-1].Count == 0 {
		n--
	}
	for i := n; i < len(held); i++ {
		t.age(held[i], gone)
		held[i] = Value{}
	}
	t.n = uint8(max(n, 1))
	t.full = false
	t.reindex()
}

// AppendValues appends the values held to dst, the highest count first, then by
// value.
func (t *Table) AppendValues(dst []Value) []Value {
	start := len(dst)
	dst = appendCounted(dst, t.held())
	slices.SortFunc(dst[start:], Value.Compare)
	return dst
}

// appendCounted appends the values that have a count.
func appendCounted(dst, values []Value) []Value {
	for _, v := range values {
		if v.Count > 0 {
			dst = append(dst, v)
		}
	}
	return dst
}

// Matched returns the sum of the counts of the values held.
func (t *Table) Matched() int64 {
	var sum int64
	for _, s := range t.held() {
		sum += s.Count
	}
	return sum
}

// Other returns the count of values that the table had no slot for.
func (t *Table) Other() int64 { return t.other }

// Aged returns the counts that Decay and Reset have taken away.
func (t *Table) Aged() int64 { return t.aged }

// Total returns the count of all values: Matched + Other + Aged.
func (t *Table) Total() int64 { return t.Matched() + t.other + t.aged }

// Full reports whether new values count as other: the table holds as many values
// as it can, or the hash could not tell a new value from those held. Decay and
// Reset make room.
func (t *Table) Full() bool { return t.full }

// Bytes returns the memory of the table.
func (t *Table) Bytes() int {
	return int(tableBytes) + int(t.capacity)*int(slotBytes) + t.indexBytes()
}

// AppendText appends the table's layout: a line for the whole table and a line for
// each value held, as OpenJ9's TR_JProfilingValueDumpInfo shows. It is an
// [encoding.TextAppender] that never fails.
//
//	multiply key=0x9e3779b97f4a7c15 bits=4 values=2/8 full=false other=0 aged=3 total=10
//	slot=0 position=0xb value=0xc000010000 count=6
//	slot=1 position=0x2 value=0xc000020000 count=1
func (t *Table) AppendText(b []byte) ([]byte, error) {
	held := t.held()
	if t.empty() {
		held = nil
	}
	b = fmt.Appendf(b, "%s key=%#x bits=%d values=%d/%d full=%t other=%d aged=%d total=%d\n",
		t.hash, t.key, t.bits(), len(held), t.capacity, t.full, t.other, t.aged, t.Total())
	for i, v := range held {
		b = fmt.Appendf(b, "slot=%d position=%#x value=%#x count=%d\n", i, t.position(v.Value), v.Value, v.Count)
	}
	return b, nil
}
