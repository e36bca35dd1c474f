package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// sampled returns a profile of samples of a program of 8 leaves, which the seed
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

// Thinned profiles agree as profiles of so few samples do.
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
