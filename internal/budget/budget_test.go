package budget

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLevel: cut to the level, costs fill the budget, and no lower level would be fairer.
func TestLevel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOf(rapid.Float64Range(0, 100)).Draw(t, "costs")
		budget := rapid.Float64Range(0.1, 200).Draw(t, "budget")
		sum, cut := 0.0, 0.0
		l := Level(costs, budget)
		for _, c := range costs {
			sum += c
			cut += min(c, l)
		}
		switch {
		case sum <= budget*(1-1e-9) && !math.IsInf(l, 1):
			t.Fatalf("%v fit, and are cut to %v", costs, l)
		case sum > budget*(1+1e-9) && math.Abs(cut-budget) > 1e-6*budget:
			t.Fatalf("cut to %v, costs are %v of %v", l, cut, budget)
		}
	})
}

// TestCharge: sessions share the CPU time by their samples. Over the budget the costliest ones
// hear of more than their bound.
func TestCharge(t *testing.T) {
	t.Parallel()
	var c Meter
	small, large := new(Share), new(Share)
	shares := []*Share{small, large}
	start := time.Unix(1000, 0)
	c.Charge(start, time.Hour, 0.5, shares, []uint64{7, 7}) // what was used before counts for none
	if small.CPU() != 0 || large.CPU() != 0 {
		t.Errorf("charged %v and %v at the start", small.CPU(), large.CPU())
	}
	c.Charge(start.Add(time.Second), time.Hour+400*time.Millisecond, 0.5, shares, []uint64{107, 307})
	if got := []time.Duration{small.CPU(), large.CPU()}; got[0] != 200*time.Millisecond || got[1] != 600*time.Millisecond {
		t.Errorf("within the budget: %v of a second, want a quarter and three of 0.4 s, over 0.5 cores", got)
	}
	before := [2]time.Duration{small.CPU(), large.CPU()}
	c.Charge(start.Add(2*time.Second), time.Hour+1400*time.Millisecond, 0.5, shares, []uint64{207, 1207})
	if over := large.CPU() - before[1]; over <= time.Second {
		t.Errorf("over the budget, the costliest session is charged %v of a second", over)
	}
	if within := small.CPU() - before[0]; within > time.Second {
		t.Errorf("over the budget, the small session is charged %v of a second", within)
	}
	c.Charge(start.Add(3*time.Second), 2*time.Hour, 0.5, shares, []uint64{207, 1207}) // nothing sampled: requests
	if large.CPU()-before[1] > 3*time.Second {
		t.Error("a session is charged for work without samples")
	}
}
