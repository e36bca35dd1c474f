package main

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// curve is the growth of overlap with the number of samples, for a program's runs.
type curve struct {
	points  [allKinds][]sized // by samples: whole runs, thinned ones, pooled ones
	shorter [allKinds][]sized // shorter runs
	law     [allKinds]law     // of the points
}

// parts are the kept parts of a run's samples in thinning.
var parts = []float64{1. / 128, 1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2}

// fewest is the least number of kept samples, so that no profile is empty.
const fewest = 20

// pools are the numbers of pooled runs.
var pools = []int{1, 2, 5}

// trace measures the points of a curve on the profiles of whole runs.
func (c *curve) trace(profiles []*ccmap.Snapshot) error {
	for _, n := range pools {
		pooled, err := pooledBy(n, profiles)
		if err == nil {
			err = appendTo(&c.points, pooled)
		}
		if err != nil {
			return err
		}
	}
	whole := c.points[contexts][0].samples
	for _, keep := range parts {
		if keep*whole < fewest {
			continue
		}
		if err := appendTo(&c.points, thinAll(profiles, keep)); err != nil {
			return err
		}
	}
	for k := range allKinds {
		slices.SortFunc(c.points[k], func(a, b sized) int { return cmp.Compare(a.samples, b.samples) })
		c.law[k] = fit(c.points[k])
	}
	return nil
}

func thinAll(profiles []*ccmap.Snapshot, keep float64) []*ccmap.Snapshot {
	thinned := make([]*ccmap.Snapshot, len(profiles))
	for i, p := range profiles {
		thinned[i] = thin(p, keep, rand.New(rand.NewPCG(1, uint64(i))))
	}
	return thinned
}

// pooledBy pools n profiles at a time.
func pooledBy(n int, profiles []*ccmap.Snapshot) ([]*ccmap.Snapshot, error) {
	if n == 1 {
		return profiles, nil
	}
	var all []*ccmap.Snapshot
	for i := 0; i+n <= len(profiles); i += n {
		p, err := pool(profiles[i : i+n])
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// appendTo compares every profile with the next, the last one with the first, and appends
// the means. A single profile has no next one.
func appendTo(to *[allKinds][]sized, profiles []*ccmap.Snapshot) error {
	if len(profiles) < 2 {
		return nil
	}
	points, err := neighbors(profiles)
	if err != nil {
		return err
	}
	for k := range allKinds {
		to[k] = append(to[k], points[k])
	}
	return nil
}

func neighbors(profiles []*ccmap.Snapshot) ([allKinds]sized, error) {
	var sum [allKinds]sized
	n := len(profiles)
	for i, p := range profiles {
		c, err := compareRuns(p, profiles[(i+1)%n])
		if err != nil {
			return sum, err
		}
		for k, o := range c.overlaps {
			sum[k].samples += float64(c.A.Samples) / float64(n)
			sum[k].overlap += o.Percent / float64(n)
		}
	}
	return sum, nil
}

// thin resamples a profile: it keeps each sample with the probability keep. It assumes
// that the samples of a node have equal weight.
func thin(s *ccmap.Snapshot, keep float64, r *rand.Rand) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: s.Names(), Seed: 1})
	placed := make([]ccmap.NodeID, s.Len())
	for n := range s.Nodes() {
		if n.ID == m.Root() {
			continue
		}
		placed[n.ID] = m.Child(placed[n.Parent], n.Offset, n.Method)
		m.Add(placed[n.ID], thinCounters(n.Self, keep, r))
	}
	return m.Snapshot()
}

func thinCounters(c ccmap.Counters, keep float64, r *rand.Rand) ccmap.Counters {
	if c.Samples == 0 {
		return ccmap.Counters{}
	}
	var kept int64
	for range c.Samples {
		if r.Float64() < keep {
			kept++
		}
	}
	return ccmap.Counters{Samples: kept, Time: part(c.Time, kept, c.Samples)}
}

// part returns whole·kept/all, for 0 ≤ kept ≤ all.
func part(whole, kept, all int64) int64 {
	hi, lo := bits.Mul64(uint64(whole), uint64(kept))
	quotient, _ := bits.Div64(hi, lo, uint64(all))
	return int64(quotient)
}

// pool returns one profile of several profiles' samples.
func pool(profiles []*ccmap.Snapshot) (*ccmap.Snapshot, error) {
	m := ccmap.New(ccmap.Options{Seed: 1})
	for _, p := range profiles {
		if err := m.Merge(p); err != nil {
			return nil, err
		}
	}
	return m.Snapshot(), nil
}

// rest is the agreement of single runs with all others pooled, which come as close to the
// truth as sampling can. Figures are means, in percent.
type rest struct {
	overlap  [allKinds]float64
	coverage float64 // hot edges of the others that the run has, τ = 0.1
	warm     float64 // the same for warm edges, τ = 0.01
}

// warmTau is from D'Elia et al.
const warmTau = 0.01

// againstRest compares every profile with the others.
func againstRest(profiles []*ccmap.Snapshot) (rest, error) {
	var r rest
	n := float64(len(profiles))
	for i, p := range profiles {
		others, err := pool(slices.Delete(slices.Clone(profiles), i, i+1))
		if err != nil {
			return r, err
		}
		c, err := compareRuns(p, others)
		if err != nil {
			return r, err
		}
		for k, o := range c.overlaps {
			r.overlap[k] += o.Percent / n
		}
		warm, err := compare.Compare(p, others, compare.Options{Tau: warmTau})
		if err != nil {
			return r, err
		}
		r.coverage += c.Coverage.BA / n
		r.warm += warm.Coverage.BA / n
	}
	return r, nil
}
