package main

import (
	"math/bits"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// thin tosses a coin for every sample of a profile, and returns a profile of
// those that are kept. The samples of a node are taken to weigh the same.
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

// pool returns one profile of the samples of several.
func pool(profiles []*ccmap.Snapshot) (*ccmap.Snapshot, error) {
	m := ccmap.New(ccmap.Options{Seed: 1})
	for _, p := range profiles {
		if err := m.Merge(p); err != nil {
			return nil, err
		}
	}
	return m.Snapshot(), nil
}
