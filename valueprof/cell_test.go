package valueprof

import (
	"testing"

	"pgregory.net/rapid"
)

// A cell loses nothing: whatever is counted is taken, by value or as other, and each value
// that has a place is exact.
func TestCellTakesAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		distinct := rapid.SampledFrom([]uint64{1, 2, 3, 15, 16, 64, 80, 500}).Draw(t, "distinct")
		var c Cell
		counted, taken := make(map[uint64]int64), make(map[uint64]int64)
		var nulls, others, gone int64
		take := func() {
			before := c.Count()
			sum := int64(0)
			other, null := c.Take(func(v Value) {
				if v.Count <= 0 {
					t.Fatalf("takes %+v", v)
				}
				taken[v.Value] += v.Count
				sum += v.Count
			})
			if others, gone = others+other, gone+null; other < 0 || sum+other+null != before || c.Count() != 0 {
				t.Fatalf("took %d, %d others and %d nulls of %d; %d are left", sum, other, null, before, c.Count())
			}
		}
		for range rapid.IntRange(0, 6000).Draw(t, "hits") {
			switch v := rapid.Uint64Range(0, 3*distinct).Draw(t, "value"); {
			case v < distinct:
				if counted[v*v]++; !c.Hit(v * v) {
					c.Miss(v * v)
				}
			case v == distinct:
				nulls, c.Nulls = nulls+1, c.Nulls+1
			case v == distinct+1 && rapid.IntRange(0, 50).Draw(t, "take") == 0:
				take()
			}
		}
		take()
		missing := int64(0)
		for v, n := range counted {
			if taken[v] > n {
				t.Fatalf("value %d: %d of %d", v, taken[v], n)
			}
			missing += n - taken[v]
		}
		if missing != others || nulls != gone {
			t.Errorf("%d others of %d, %d nulls of %d", others, missing, gone, nulls)
		}
		if distinct <= maxOverflow && others > 0 {
			t.Errorf("%d others of %d values", others, distinct)
		}
	})
}

// A cell that has given its counts away finds the same values at once.
func TestCellKeepsValues(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{1, 2, 3, 15} {
		var c Cell
		for range 3 {
			for v := range n {
				if !c.Hit(v) {
					c.Miss(v)
				}
			}
			c.Take(func(Value) {})
		}
		for v := range n {
			if n > 1 && !c.Hit(v) {
				t.Errorf("value %d of %d has no place any more", v, n)
			}
		}
	}
}

// After a change of the program the values that are frequent now have places.
func TestCellFollows(t *testing.T) {
	t.Parallel()
	var c Cell
	for phase := range uint64(2) {
		for i := range uint64(20_000) {
			if v := phase*1000 + i%10; !c.Hit(v) {
				c.Miss(v)
			}
		}
	}
	for v := range uint64(10) {
		if !c.Hit(1000 + v) {
			t.Errorf("value %d has no place", 1000+v)
		}
	}
}

func TestCellAllocates(t *testing.T) {
	var c Cell
	for v := range uint64(100) {
		c.Miss(v)
	}
	if n := testing.AllocsPerRun(100, func() {
		for v := range uint64(100) {
			if !c.Hit(v) {
				c.Miss(v)
			}
		}
		c.Take(func(Value) {})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
