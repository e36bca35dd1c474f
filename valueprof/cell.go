package valueprof

// A Cell counts the values of one point for the one goroutine that owns it, for a VM that
// counts itself. Its owner now and then gives the counts away ([Cell.Take]) and goes on:
// the values that the cell holds stay, so that the next hits find them.
//
// Two values are inline. From the third on a table holds the frequent ones, and the cell
// keeps some of the counts that leave the table. The zero value is an empty cell. A cell
// takes 48 bytes, and about 450 more from the third value on.
//
//	if !c.Hit(v) {
//		c.Miss(v)
//	}
type Cell struct {
	values pair
	table  *cellTable // nil: the values are inline
	Nulls  int64      // of a reference that is null, which is no value
}

// cellTable is the table of a cell.
type cellTable struct {
	*Table
	last     lastLook
	missed   int64   // values without a slot, since the last look
	overflow []Value // counts that left the table, in any order: at most maxOverflow
	named    int64   // the sum of overflow
}

const (
	cellCapacity = 15   // values of a table
	cellEvery    = 1000 // adds of a table between two looks, see Options.Every
	maxOverflow  = 64   // values that a cell keeps beside its table until it gives its counts away
)

// Hit counts v if it finds v at once, and reports whether it did. If not, the owner calls Miss.
func (c *Cell) Hit(v uint64) bool {
	if c.table != nil {
		return c.table.Hit(v)
	}
	return c.values.hit(v)
}

// Miss counts a v that Hit has just refused.
func (c *Cell) Miss(v uint64) {
	if c.table == nil {
		if c.values.place(v) {
			return
		}
		c.table = &cellTable{Table: New(cellCapacity, HashAuto)}
		for _, v := range c.values {
			c.table.AddN(v.Value, v.Count)
		}
		c.values = pair{}
	}
	c.table.miss(v)
}

// Count returns the executions that the cell has counted since it was taken, nulls included.
func (c *Cell) Count() int64 {
	if c.table != nil {
		return c.Nulls + c.table.Total()
	}
	return c.Nulls + c.values.sum()
}

// Take takes all counts: it gives those by value to each, and returns the rest. A value may
// come twice.
func (c *Cell) Take(each func(Value)) (other, nulls int64) {
	nulls, c.Nulls = c.Nulls, 0
	if c.table != nil {
		return c.table.take(each), nulls
	}
	for i := range c.values {
		if v := &c.values[i]; v.Count > 0 {
			each(*v)
			v.Count = 0
		}
	}
	return 0, nulls
}

// miss counts a value, and looks at the table after enough values without a slot.
func (t *cellTable) miss(v uint64) {
	other := t.Other()
	t.Table.Miss(v)
	if t.Other() == other {
		return
	}
	t.keepBeside(Value{Value: v, Count: 1})
	if t.missed++; t.missed >= cellEvery/10 {
		t.missed = 0
		PolicyDecay.judge(t.Table, &t.last, cellEvery, t.keepBeside)
	}
}

// keepBeside keeps a count that is not in the table, by value while there is room.
func (t *cellTable) keepBeside(v Value) {
	for i := range t.overflow {
		if t.overflow[i].Value == v.Value {
			t.overflow[i].Count += v.Count
			t.named += v.Count
			return
		}
	}
	if len(t.overflow) < maxOverflow {
		t.overflow = append(t.overflow, v)
		t.named += v.Count
	}
}

func (t *cellTable) take(each func(Value)) (other int64) {
	other = t.Other() + t.Aged() - t.named
	for _, v := range t.overflow {
		each(v)
	}
	t.Table.take(each)
	t.overflow, t.named = t.overflow[:0], 0
	t.last.matched, t.last.other = 0, 0
	return other
}

// take gives all counts to each, but those of other and aged, and sets all to 0. The
// values held stay.
func (t *Table) take(each func(Value)) {
	held := t.held()
	for i := range held {
		if held[i].Count > 0 {
			each(held[i])
			held[i].Count = 0
		}
	}
	t.other, t.aged = 0, 0
}
