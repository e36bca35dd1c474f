package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMedianRank compares with the table of the sign test: the interval from the
// k-th value to the k-th last holds the median in at least 95 % of cases.
func TestMedianRank(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 1, 5: 1, 6: 1, 9: 2, 10: 2, 15: 4, 20: 6, 25: 8, 40: 14} {
		if got := medianRank(n); got != want {
			t.Errorf("of %d values: rank %d, want %d", n, got, want)
		}
	}
}

func TestMedianOf(t *testing.T) {
	t.Parallel()
	got := medianOf([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5})
	if want := (interval{2, 5, 8}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := medianOf([]float64{2, 4}).median, 3.0; got != want {
		t.Errorf("median of two is %v, want %v", got, want)
	}
	if got := medianOf(nil); got != (interval{}) {
		t.Errorf("median of none is %v", got)
	}
}

func TestAdded(t *testing.T) {
	t.Parallel()
	listener := interval{4, 5, 6}
	for want, sampled := range map[string]interval{
		"100x (≥ 50x)":              {1.02, 1.04, 1.06},
		"(≥ 150x)":                  {0.98, 0.99, 1.02},
		"no time is added at 10 ms": {0.97, 0.98, 0.99},
	} {
		if got := added(listener, sampled); got != want {
			t.Errorf("%v: got %s, want %s", sampled, got, want)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	t.Parallel()
	if got := (interval{}).String() + added(interval{}, interval{1, 1, 1}); got != "––" {
		t.Errorf("got %s", got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	printTable(&b, []row{{
		program: "fib",
		compile: compileCost{speed: 80, growth: 1.5, time: 1.25},
		ways: map[string][]pair{
			wayPlain: {{cpu: 1}}, wayPolls: {{cpu: 1.01}}, way50: {{cpu: 1.01}}, way10: {{cpu: 1.02}},
			way1: {{cpu: 1.1}}, wayListener: {{cpu: 3}},
		},
	}})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := "| fib | +0.0 % (+0.0 … +0.0) | +1.0 % (+1.0 … +1.0) | +1.0 % (+1.0 … +1.0) | +2.0 % (+2.0 … +2.0)" +
		" | +10.0 % (+10.0 … +10.0) | +200.0 % (+200.0 … +200.0) | 100x (≥ 100x) | 80 | 1.50x | 1.25x |"
	if diff := cmp.Diff(want, lines[len(lines)-1]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
