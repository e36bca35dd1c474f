package ccmap

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestCovered: parts that follow one another add up, and parts at a time count once, in any order. The model has a
// flag for each second.
func TestCovered(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_000_000, 0)
	for range 1000 {
		var c covered
		var seconds [100]bool
		for range 12 {
			from := rand.IntN(80)
			length := 1 + rand.IntN(len(seconds)-from-1)
			want := 0
			for i := from; i < from+length; i++ {
				if !seconds[i] {
					want++
				}
				seconds[i] = true
			}
			got := c.add(begin.Add(time.Duration(from)*time.Second), time.Duration(length)*time.Second)
			if got != time.Duration(want)*time.Second {
				t.Fatalf("%d s from %d on add %v, want %d s: %v", length, from, got, want, c)
			}
		}
		for i := range c[1:] {
			if !c[i].to.Before(c[i+1].from) {
				t.Fatalf("spans %v are not in order", c)
			}
		}
	}
}

// TestCoveredBounds: a part without a start adds all of its time, and so does one beyond the bound.
func TestCoveredBounds(t *testing.T) {
	t.Parallel()
	var c covered
	for i := range 2 * mostStretches {
		if got := c.add(time.Unix(int64(10*i+10), 0), time.Second); got != time.Second {
			t.Fatalf("part %d adds %v", i, got)
		}
	}
	if c.add(time.Time{}, time.Minute) != time.Minute || len(c) > mostStretches {
		t.Errorf("%d spans", len(c))
	}
}
