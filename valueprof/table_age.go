package valueprof

// Decay makes room for values that have become frequent: it halves every count
// and other, and drops the weakest quarter of the values, at least one. The counts
// that it takes away are added to Aged, so Total stays. It gives them to gone, by
// value, except the counts of other, which have none; a value may come twice. Gone may
// be nil.
func (t *Table) Decay(gone func(Value)) {
	held := t.held()
	for i := range held {
		t.age(Value{held[i].Value, halve(&held[i].Count)}, gone)
	}
	t.aged += halve(&t.other)
	sortValues(held)
	t.keep(len(held)-(len(held)+3)/4, gone)
}

// age counts what is taken from a value.
func (t *Table) age(taken Value, gone func(Value)) {
	t.aged += taken.Count
	if gone != nil && taken.Count > 0 {
		gone(taken)
	}
}

// halve halves a count, rounding down, and returns what is gone.
func halve(count *uint64) uint64 {
	gone := *count - *count/2
	*count /= 2
	return gone
}

// Reset clears all values and other, so that the next values to come repopulate
// the table, as the seed has it. It gives away counts as Decay does.
func (t *Table) Reset(gone func(Value)) {
	t.aged += t.other
	t.other = 0
	t.keep(0, gone)
}

// keep drops the values after the first n, and those without a count. The counts
// fall from slot to slot, unless n is 0. Where values are told apart, fewer of
// them are as well: the key stays.
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

// clear forgets everything that was counted.
func (t *Table) clear() {
	t.Reset(nil)
	t.aged = 0
}
