package valueprof

// Decay makes room for values that have become frequent: it halves every count
// and other, and drops the weakest quarter of the values, at least one. What it
// takes away is added to Aged, so Total stays.
func (t *Table) Decay() {
	held := t.held()
	for i := range held {
		t.aged += halve(&held[i].Count)
	}
	t.aged += halve(&t.other)
	sortValues(held)
	t.keep(len(held) - (len(held)+3)/4)
}

// halve halves a count, rounding down, and returns what is gone.
func halve(count *uint64) uint64 {
	gone := *count - *count/2
	*count /= 2
	return gone
}

// Reset clears all values and other, so that the next values to come repopulate
// the table: what the seed does. What it takes away is added to Aged, so Total
// stays.
func (t *Table) Reset() {
	t.aged += t.other
	t.other = 0
	t.keep(0)
}

// keep drops the values after the first n, and those without a count. The counts
// fall from slot to slot, unless n is 0. Where values are told apart, fewer of
// them are as well: the key stays.
func (t *Table) keep(n int) {
	held := t.held()
	for n > 0 && held[n-1].Count == 0 {
		n--
	}
	for i := n; i < len(held); i++ {
		t.aged += held[i].Count
		held[i] = Value{}
	}
	t.n = uint8(max(n, 1))
	t.full = false
	t.reindex()
}

// clear forgets everything that was counted.
func (t *Table) clear() {
	t.Reset()
	t.aged = 0
}
