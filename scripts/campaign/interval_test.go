package campaign

import (
	"math"
	"testing"
)

// medianRank agrees with the table of the sign test: the interval from the k-th value to
// the k-th last holds the median in at least 95 % of cases.
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
	got := MedianOf([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5})
	if want := (Interval{2, 5, 8}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Median([]float64{2, 4}); got != 3 {
		t.Errorf("median of two is %v, want 3", got)
	}
	if got := MedianOf(nil); got != (Interval{}) {
		t.Errorf("median of none is %v", got)
	}
}

// student agrees with the table of Student's distribution.
func TestStudent(t *testing.T) {
	t.Parallel()
	for freedom, want := range map[int]float64{1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 9: 2.262, 30: 2.042, 1000: 1.962} {
		if got := student(freedom); math.Abs(got-want) > 0.03 {
			t.Errorf("of %d: %.3f, want %.3f", freedom, got, want)
		}
	}
}

func TestMeanOf(t *testing.T) {
	t.Parallel()
	got := MeanOf([]float64{1, 2, 3, 4, 5})
	if half := 2.776 * math.Sqrt(2.5/5); got.Middle != 3 || math.Abs(got.Half()-half) > 0.01 {
		t.Errorf("%v, want 3 ± %.3f", got, half)
	}
	if one := MeanOf([]float64{7}); one.Middle != 7 || !math.IsInf(one.Half(), 1) {
		t.Errorf("mean of one is %v", one)
	}
}
