package bpf

import (
	"testing"
	"time"
)

// TestChoice: all samples are chosen where there are few, and no more than so many a second where there are many.
func TestChoice(t *testing.T) {
	t.Parallel()
	c := choice{budget: defaultBudget}
	for rate, want := range map[float64]float64{0: leastChosen, 5: 1, 100: 0.5, 200: 0.25, 10_000: leastChosen} {
		if got := c.share(rate); got != want {
			t.Errorf("%v samples a second: %v, want %v", rate, got, want)
		}
	}
	for budget, want := range map[float64]float64{0: 0, defaultBudget / 4: 0.125, 1: 1} {
		if got := (&choice{budget: budget}).share(100); got != want {
			t.Errorf("budget %v: %v, want %v", budget, got, want)
		}
	}
	now := time.Now()
	look := func(taken int) float64 {
		now = now.Add(2 * time.Second)
		c.taken = taken
		share, known := c.look(now)
		if !known {
			return -1
		}
		return share
	}
	for i, step := range []struct {
		taken int
		want  float64
	}{{10, -1}, {10, 1}, {200, 0.5}, {0, -1}, {400, 0.25}} {
		if got := look(step.taken); got != step.want {
			t.Errorf("look %d: %v, want %v", i, got, step.want)
		}
	}
}
