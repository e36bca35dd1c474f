package valueprof

import "unsafe"

// init makes the table empty.
func (t *Table) init(capacity int, h Hash) {
	capacity = min(max(capacity, MinCapacity), MaxCapacity)
	t.capacity, t.hash, t.n = uint8(capacity), h.Resolve(), 1
	t.slots = unsafe.Pointer(unsafe.SliceData(make([]Value, capacity)))
	bits := 0
	if t.hash == HashMultiply {
		bits = multiplyBits(capacity)
	}
	t.makeIndex(bits)
}

// makeIndex makes an index of 1 << bits positions that all lead to the first
// slot, where an empty position may lead: no value is found there but the one
// whose position is another.
func (t *Table) makeIndex(bits int) {
	t.shift = uint8(64 - bits)
	t.index = unsafe.Pointer(unsafe.SliceData(make([]uint8, t.indexBytes())))
}

// indexBytes returns the length of the index and of the list behind it.
func (t *Table) indexBytes() int {
	n := 1 << t.bits()
	if t.hasList() {
		n += int(bitListBytes)
	}
	return n
}

// hasList reports whether the hash goes by a bitList.
func (t *Table) hasList() bool { return t.hash == HashBitPermute || t.hash == HashShift }

// bits returns the binary logarithm of the number of positions.
func (t *Table) bits() uint8 { return 64 - t.shift }

func (t *Table) positions() []uint8 { return unsafe.Slice((*uint8)(t.index), 1<<t.bits()) }

// held returns the slots in use.
func (t *Table) held() []Value { return unsafe.Slice((*Value)(t.slots), t.n) }

// position returns where the index has the slot of v.
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

// insert gives v a slot without a count, and reports whether it could. Where its
// position is free, that is all; where it has a value, all are rearranged.
func (t *Table) insert(v uint64) bool {
	if t.slot(0).Count == 0 {
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

// separate rearranges the index so that each value held has a position of its
// own.
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
