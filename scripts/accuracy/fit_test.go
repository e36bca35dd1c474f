package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

// Points on a law give the law, and its inverse inverts it.
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
		points = append(points, sized{1, 0}) // beyond the fitted range
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

// The shortfall of counters with equal weight falls by the root of the number of samples.
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

// Halves on a law foretell the whole.
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
		{"mean", campaign.Mean(values), 0.5},
		{"median", campaign.Median(values), 1.5},
		{"median of three", campaign.Median(values[:3]), 1},
		{"deviation", campaign.Deviation(values), math.Sqrt(15)},
		{"deviation of one", campaign.Deviation(values[:1]), 0},
		{"root mean square", rootMeanSquare(values), math.Sqrt(11.5)},
		{"worst", worst(values), -5},
		{"median of ratios", campaign.Median(ratios(values, []float64{2, 5, 4})), 0.25},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
}

// sampled returns a profile of samples of a program with 8 leaves, which the seed
// chooses.
func sampled(samples int, seed uint64) *ccmap.Snapshot {
	m, r := ccmap.New(ccmap.Options{Seed: 1}), rand.New(rand.NewPCG(seed, 0))
	method := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	top := m.Child(m.Root(), ccmap.NoOffset, method("main.main"))
	for range samples {
		i := r.IntN(8)
		leaf := m.Child(top, uint32(i), method("main.work"+string(rune('a'+i))))
		m.Add(m.Child(leaf, 7, ccmap.NoMethod), ccmap.Counters{Samples: 1, Time: 10})
	}
	return m.Snapshot()
}

func TestThinKeepsAPart(t *testing.T) {
	t.Parallel()
	const samples, keep = 40_000, 0.25
	s := sampled(samples, 1)
	got := thin(s, keep, rand.New(rand.NewPCG(1, 1))).Total()
	const tolerated = 6 // standard deviations
	if off := math.Abs(float64(got.Samples) - keep*samples); off > tolerated*math.Sqrt(samples*keep*(1-keep)) {
		t.Errorf("%d samples of %d are kept", got.Samples, samples)
	}
	if got.Time != 10*got.Samples {
		t.Errorf("%d samples have %d ns, want 10 each", got.Samples, got.Time)
	}
}

func TestThinAllAndNothing(t *testing.T) {
	t.Parallel()
	s := sampled(1000, 1)
	all := thin(s, 1, rand.New(rand.NewPCG(1, 1)))
	r, err := compare.Compare(s, all, compare.Options{})
	if err != nil || r.Contexts.Percent != 100 || all.Total() != s.Total() {
		t.Errorf("of all samples kept %v overlaps by %v, %v", all.Total(), r.Contexts.Percent, err)
	}
	if got := thin(s, 0, rand.New(rand.NewPCG(1, 1))).Total(); !got.IsZero() {
		t.Errorf("of no samples kept %+v is left", got)
	}
}

// Thinned profiles agree like profiles with as many samples.
func TestThinnedAgreeAsSmallerOnes(t *testing.T) {
	t.Parallel()
	const runs = 20
	var thinned, smaller []*ccmap.Snapshot
	for i := range uint64(runs) {
		thinned = append(thinned, thin(sampled(4000, i), 1./8, rand.New(rand.NewPCG(9, i))))
		smaller = append(smaller, sampled(500, 100+i))
	}
	a, err1 := neighbors(thinned)
	b, err2 := neighbors(smaller)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	const tolerated = 1 // point; the error of these means is a fifth of that
	if off := math.Abs(a[contexts].overlap - b[contexts].overlap); off > tolerated {
		t.Errorf("thinned runs overlap by %.1f, runs of as many samples by %.1f", a[contexts].overlap, b[contexts].overlap)
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	p, err := pool([]*ccmap.Snapshot{sampled(100, 1), sampled(50, 2)})
	if err != nil || p.Total().Samples != 150 {
		t.Errorf("%d samples, %v; want 150", p.Total().Samples, err)
	}
}
