package compare

import (
	"math"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

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

// The floor belongs to a profile and a seed, not to what it is compared with,
// and the lower of two is printed.
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
