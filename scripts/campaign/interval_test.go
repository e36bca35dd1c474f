package campaign

import (
	"math"
	"math/rand/v2"
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

// Without outliers to cut, the trimmed mean is Student's; with them, they decide nothing.
func TestTrimmedMeanOf(t *testing.T) {
	t.Parallel()
	got := TrimmedMeanOf([]float64{1, 2, 3, 4})
	if half := 3.182 * math.Sqrt(5.0/3/4); got.Middle != 2.5 || math.Abs(got.Half()-half) > 0.02 {
		t.Errorf("%v, want 2.5 ± %.3f", got, half)
	}
	near := TrimmedMeanOf([]float64{-4, 1, 2, 3, 4, 5, 6, 7, 8, 13})
	far := TrimmedMeanOf([]float64{-1e9, 1, 2, 3, 4, 5, 6, 7, 8, 1e9})
	if near != far || near.Middle != 4.5 {
		t.Errorf("%v and %v, want the same around 4.5", near, far)
	}
	// Of ten values two are cut at each end: the others are 2 to 7, and Winsorized 2, 2, 2, 3, …, 7, 7, 7.
	if half := 2.571 * math.Sqrt(42.5/6/5); math.Abs(near.Half()-half) > 0.02 {
		t.Errorf("± %.3f, want %.3f", near.Half(), half)
	}
	if one := TrimmedMeanOf([]float64{7}); one.Middle != 7 || !math.IsInf(one.Half(), 1) {
		t.Errorf("of one: %v", one)
	}
}

// Nineteen of twenty intervals hold the middle of what values come from, outliers or not.
func TestTrimmedMeanCovers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const tries = 4000
	for name, noise := range map[string]func() float64{
		"normal":   random.NormFloat64,
		"outliers": func() float64 { return random.NormFloat64() / max(0.02, random.Float64()) },
	} {
		held := 0
		for range tries {
			values := make([]float64, 20)
			for i := range values {
				values[i] = noise()
			}
			if i := TrimmedMeanOf(values); i.Low <= 0 && 0 <= i.High {
				held++
			}
		}
		if share := float64(held) / tries; share < 0.93 || share > 0.98 {
			t.Errorf("%s: %.3f of the intervals hold the middle, want 0.95", name, share)
		}
	}
}
