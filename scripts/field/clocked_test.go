package main

import (
	"math"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Known quantiles of χ².
func TestChiSquareTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x       float64
		freedom int
		want    float64
	}{{5.991, 2, 0.05}, {18.307, 10, 0.05}, {37.566, 20, 0.01}, {0, 20, 1}} {
		if got := chiSquareTail(c.x, c.freedom); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("χ² of %d over %v: %.5f, want %v", c.freedom, c.x, got, c.want)
		}
	}
}

// A share that is off by a standard deviation adds 1.
func TestSharesAddSquares(t *testing.T) {
	t.Parallel()
	var s shares
	s.add([2]float64{60, 40}, [2]float64{50, 50}, 25)
	s.add([2]float64{50, 49}, [2]float64{50, 50}, 25)
	if s.chi < 1 || s.chi > 1.01 || s.first[0] != 0.6 || s.seen[1] != 0.99 {
		t.Errorf("%+v", s)
	}
}

// A sample is compared with the call of the sample before it. Early samples and the first
// one do not count.
func TestVerdictsAreJudged(t *testing.T) {
	t.Parallel()
	began := calls{0, 100, 200, 300}
	got := began.judge([]verdictOn{
		{10, ccmap.TopNew, false, false},
		{20, ccmap.TopRepeated, false, false},
		{30, ccmap.TopNew, false, false},
		{110, ccmap.TopRepeated, false, false},
		{210, ccmap.TopUnknown, false, false},
		{220, ccmap.TopUnknown, false, false},
		{310, ccmap.TopNew, true, false},
		{350, ccmap.TopUnknown, false, true},
		{360, ccmap.TopRepeated, false, false},
	})
	want := judged{samples: 5, truly: 3, known: 3, repeated: 2, untrue: 1, overseen: 1}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Verdicts with the samples' rate have a chance of 1. Many repetitions among the verdicts
// are unlikely if they are rare among the samples.
func TestChanceOfVerdicts(t *testing.T) {
	t.Parallel()
	all := judged{samples: 100, truly: 10, known: 100, repeated: 10}
	if p := all.chance(); math.Abs(p-1) > 1e-9 {
		t.Errorf("all samples are known: chance %v", p)
	}
	one := judged{samples: 100, truly: 10, known: 1, repeated: 1}
	if p := one.chance(); math.Abs(p-22.0/101) > 1e-9 {
		t.Errorf("one repetition of one verdict: chance %v, want 22/101", p)
	}
	lie := judged{samples: 100, truly: 1, known: 50, repeated: 10}
	if p := lie.chance(); p > 1e-3 {
		t.Errorf("one repetition in a hundred samples, ten in fifty verdicts: chance %v", p)
	}
}
