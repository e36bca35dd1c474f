package main

import (
	"math"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

// Points that obey a law give it back, and the inverse inverts it.
func TestFitFindsTheLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := law{
			scale:    rapid.Float64Range(50, 2000).Draw(t, "scale"),
			exponent: rapid.Float64Range(-0.7, -0.2).Draw(t, "exponent"),
			points:   3,
		}
		var points []sized
		for _, overlap := range []float64{95, 90, 61} {
			points = append(points, sized{want.samples(overlap), overlap})
		}
		points = append(points, sized{1, 0}) // beyond what is fitted
		got := fit(points)
		if math.Abs(got.scale/want.scale-1) > 1e-6 || !near(got.exponent, want.exponent) || got.points != want.points {
			t.Errorf("fit %+v, want %+v", got, want)
		}
		overlap := rapid.Float64Range(1, 99.9).Draw(t, "overlap")
		if back := got.at(got.samples(overlap)); math.Abs(back-overlap) > 1e-6 {
			t.Errorf("%v samples for %v %% overlap by %v", got.samples(overlap), overlap, back)
		}
	})
}

func TestFitOfTooLittleIsUnknown(t *testing.T) {
	t.Parallel()
	if l := fit([]sized{{100, 100}, {100, 10}, {100, 90}}); !math.IsNaN(l.scale) || !math.IsNaN(l.exponent) {
		t.Errorf("fit %+v", l)
	}
}

// Counters of equal weight lose by the root of the number of samples.
func TestFitOfEqualCounters(t *testing.T) {
	t.Parallel()
	var points []sized
	for _, n := range []int{500, 2000, 8000} {
		var runs []*ccmap.Snapshot
		for i := range uint64(20) {
			runs = append(runs, sampled(n, i))
		}
		p, err := neighbors(runs)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, p[edges])
	}
	l := fit(points)
	want := 100 * math.Sqrt(7/math.Pi) // of eight counters seven are free
	if got := l.scale * math.Pow(2000, l.exponent) * math.Sqrt(2000); math.Abs(l.exponent+0.5) > 0.1 || math.Abs(got/want-1) > 0.15 {
		t.Errorf("fit %+v, which is %.0f/√n at 2,000 samples; want %.0f/√n", l, got, want)
	}
}

// Halves that obey a law foretell the whole.
func TestForetold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		exponent := rapid.SampledFrom([]float64{squareRoot, cubeRoot}).Draw(t, "exponent")
		l := law{scale: rapid.Float64Range(50, 300).Draw(t, "scale"), exponent: exponent}
		n := rapid.Float64Range(1e3, 1e6).Draw(t, "samples")
		if got := foretold(l.at(n/2), exponent); !near(got, l.at(n)) {
			t.Errorf("halves foretell %v, want %v", got, l.at(n))
		}
	})
}

func TestInterpolate(t *testing.T) {
	t.Parallel()
	points := []sized{{100, 50}, {400, 75}, {1600, 87.5}}
	for n, want := range map[float64]float64{10: 50, 100: 50, 200: 64.64466094067262, 400: 75, 1600: 87.5, 5000: 87.5} {
		if got := interpolate(points, n); !near(got, want) {
			t.Errorf("at %v samples %v, want %v", n, got, want)
		}
	}
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	values := []float64{4, -5, 1, 2}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"mean", mean(values), 0.5},
		{"median", median(values), 1.5},
		{"median of three", median(values[:3]), 1},
		{"deviation", deviation(values), math.Sqrt(15)},
		{"deviation of one", deviation(values[:1]), 0},
		{"root mean square", rootMeanSquare(values), math.Sqrt(11.5)},
		{"worst", worst(values), -5},
		{"median of ratios", median(ratios(values, []float64{2, 5, 4})), 0.25},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
}
