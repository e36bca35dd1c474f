package main

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// curve is how the overlap of a program's runs grows with their number of
// samples.
type curve struct {
	points  [allKinds][]sized // by samples: whole runs, thinned ones, several taken together
	shorter [allKinds][]sized // runs that were shorter
	law     [allKinds]law     // of the points
}

// parts are how much of a run's samples is kept in thinning it out.
var parts = []float64{1. / 128, 1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2}

// fewest is how many samples must be kept, for no profile to be empty.
const fewest = 20

// pools are how many runs are taken together.
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

// pooledBy takes n profiles at a time together.
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

// appendTo compares every profile with the next, the last one with the first,
// and appends the means. A single profile has nothing to be compared with.
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
