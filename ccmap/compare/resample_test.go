package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestFirst checks that the samples of the first side have the mean of the binomial
// distribution and the effect times its variance, on both sides of manyTrials. With an
// effect over 1 this holds for more than a few samples.
func TestFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n              uint64
		chance, effect float64
	}{
		{1, 0.5, 1}, {5, 0.5, 1}, {100, 0.5, 1}, {manyTrials, 0.5, 1}, {manyTrials + 1, 0.5, 1}, {1 << 40, 0.5, 1},
		{100, 0.1, 1}, {5000, 0.9, 1}, {manyTrials, 0.5, 3}, {manyTrials + 1, 0.2, 3}, {manyTrials, 0.2, 5},
	} {
		const trials = 4000
		random := resampler{rand.New(rand.NewPCG(test.n, 1)), test.chance, sampleSize{effect: test.effect}}
		var sum, squares float64
		for range trials {
			off := float64(random.first(test.n)) - float64(test.n)*test.chance
			sum += off
			squares += off * off
		}
		deviation := math.Sqrt(float64(test.n) * test.chance * (1 - test.chance) * test.effect)
		if mean := sum / trials / deviation; math.Abs(mean) > 5/math.Sqrt(trials) {
			t.Errorf("%+v: mean is %.3f deviations off", test, mean)
		}
		if ratio := squares / trials / (deviation * deviation); math.Abs(ratio-1) > 0.15 {
			t.Errorf("%+v: variance is %.3f of what it should be", test, ratio)
		}
	}
}

// TestOneSample checks that one sample is independent, however large the effect.
func TestOneSample(t *testing.T) {
	t.Parallel()
	random := resampler{rand.New(rand.NewPCG(1, 1)), 0.25, sampleSize{effect: 50}}
	first := uint64(0)
	for range 4000 {
		first += random.first(1)
	}
	if first < 850 || first > 1150 {
		t.Errorf("%d of 4000 first samples fall to the first side, want about 1000", first)
	}
}

func TestShareIsInRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		random := resampler{
			Rand:       rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
			chance:     rapid.Float64Range(0, 1).Draw(t, "chance"),
			sampleSize: sampleSize{effect: rapid.Float64Range(1, 200).Draw(t, "effect")},
		}
		value := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "value")
		n := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "n")
		if got := random.share(value, n); got > value {
			t.Errorf("share of %d is %d", value, got)
		}
		if got := random.share(value, 1); got != 0 && got != value {
			t.Errorf("share of an undivided %d is %d", value, got)
		}
	})
}

// flat returns a profile of so many methods, and samples of each.
func flat(methods int, samples int64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for i := range methods {
		f := m.Names().Intern(ccmap.Method{Name: string(rune(i))})
		m.Add(m.Child(m.Root(), ccmap.NoOffset, f), ccmap.Counters{Samples: samples, Time: samples * 10})
	}
	return m.Snapshot()
}

// Where every method has k samples, the halves of n methods overlap
// 1 − E|X−Y|/2k = 1 − E|2X−k|/k, X being binomial (k, 1/2): 0 for one sample
// each, 1/2 for two, 1 − √(2/πk) for many.
func TestFloorOfUniformProfile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		samples int64
		want    float64
	}{
		{1, 0},
		{2, 50},
		{1000, 100 * (1 - math.Sqrt(2/(math.Pi*1000)))},
		{1_000_000, 100 * (1 - math.Sqrt(2/(math.Pi*1_000_000)))},
	} {
		s := flat(2000, test.samples)
		got, err := Compare(s, s, Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []Overlap{got.Methods, got.Contexts} {
			if math.Abs(o.Floor-test.want) > 4 {
				t.Errorf("%d samples each: floor is %.1f, want about %.1f", test.samples, o.Floor, test.want)
			}
		}
	}
}

// A floor depends on its profile and the seed, not on the other profile. A comparison has
// the lower of both floors.
func TestFloorIsAProfilesOwn(t *testing.T) {
	t.Parallel()
	few, many := flat(30, 3), flat(50, 300)
	compare := func(a, b *ccmap.Snapshot, seed uint64) Overlap {
		r, err := Compare(a, b, Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return r.Contexts
	}
	own := compare(few, few, 7)
	with := compare(few, many, 7)
	if own.FloorA != own.FloorB || with.FloorA != own.Floor {
		t.Errorf("floor is %v and %v against itself, %v against another", own.FloorA, own.FloorB, with.FloorA)
	}
	if with.FloorA >= with.FloorB || with.Floor != with.FloorA {
		t.Errorf("floors %v and %v: %v was taken, want that of the few samples", with.FloorA, with.FloorB, with.Floor)
	}
	if compare(few, few, 8).Floor == own.Floor {
		t.Errorf("floor is %v for two seeds", own.Floor)
	}
}

// Weight without samples is not divided.
func TestFloorWithoutSamples(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	f := m.Names().Intern(ccmap.Method{Name: "f"})
	m.Add(m.Child(m.Root(), ccmap.NoOffset, f), ccmap.Counters{Time: 1_000_000})
	r, err := Compare(m.Snapshot(), m.Snapshot(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Methods.Percent != 100 || r.Methods.Floor != 0 {
		t.Errorf("overlap %v with floor %v, want 100 and 0", r.Methods.Percent, r.Methods.Floor)
	}
}

// Another overlap falls under the least of some draws once in a hundred times,
// however few they are.
func TestNoiseLeast(t *testing.T) {
	t.Parallel()
	const trials = 100_000
	r := rand.New(rand.NewPCG(1, 1))
	overlap := func() float64 { return 80 + 3*r.NormFloat64() }
	for _, n := range []int{drawsOfMany, draws} {
		under := 0
		drawn := make([]percents, n)
		for range trials {
			for i := range drawn {
				drawn[i].contexts = overlap()
			}
			if overlap() < newNoise(drawn, func(p percents) float64 { return p.contexts }).least() {
				under++
			}
		}
		if rate := float64(under) / trials; math.Abs(rate-0.01) > 0.0015 {
			t.Errorf("%d draws: %.4f of overlaps are under the least, want 0.01", n, rate)
		}
	}
}

// From manySamples on, four draws are taken in place of eight, and one split:
// they say the same.
func TestManySamplesNeedFewDraws(t *testing.T) {
	t.Parallel()
	few, many := flat(100, manySamples/100-1), flat(100, manySamples/100)
	a, errA := Compare(few, few, Options{})
	b, errB := Compare(many, many, Options{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	for _, got := range []struct{ few, many float64 }{
		{a.Contexts.Floor, b.Contexts.Floor}, {a.Contexts.Expected, b.Contexts.Expected},
	} {
		if math.Abs(got.few-got.many) > 2 || got.many > 99 {
			t.Errorf("%.2f, and of some samples more %.2f", got.few, got.many)
		}
	}
}
