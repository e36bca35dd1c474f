package compare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// flatOf returns the counters of the methods themselves, by name.
func flatOf(s *ccmap.Snapshot) map[string]ccmap.Counters {
	flat := make(map[string]ccmap.Counters)
	for m := range s.Methods() {
		flat[m.Method().Name] = m.Self()
	}
	return flat
}

// TestIntervalHoldsTheTruth: of the shares of many profiles of one program, some 95 of 100 intervals have the share
// of a very long profile, also where samples repeat, and where the interval of sampling changed.
func TestIntervalHoldsTheTruth(t *testing.T) {
	t.Parallel()
	p := newProgram(30, false)
	truth := session{samples: 400_000, interval: 10, seed: 1}.profile(p)
	for _, c := range []session{
		{samples: 150, interval: 10}, {samples: 2000, interval: 10}, {samples: 600, interval: 10, other: 2}, {samples: 1000, interval: 10, repeat: 0.5},
	} {
		held, all := 0, 0
		for seed := range uint64(40) {
			c.seed = 100 + seed
			s := c.profile(p)
			precision, flat := compare.PrecisionOf(s, compare.ByTime), flatOf(s)
			for name, counters := range flatOf(truth) {
				share := 100 * float64(counters.Time) / float64(truth.Total().Time)
				low, high := precision.Interval(flat[name])
				if share < 0.5 {
					continue
				}
				all++
				if low <= share && share <= high {
					held++
				}
			}
		}
		if percent := 100 * float64(held) / float64(all); percent < 92 || percent > 98.5 {
			t.Errorf("%+v: %.1f %% of %d intervals hold the truth", c, percent, all)
		}
	}
}

// TestIntervalNarrows: an interval has its share inside, is within 0 to 100, and the narrower the more samples there
// are.
func TestIntervalNarrows(t *testing.T) {
	t.Parallel()
	for _, percent := range []int64{0, 1, 50, 99, 100} {
		last := math.Inf(1)
		for _, n := range []int64{1, 100, 10_000, 1_000_000} {
			item := ccmap.Counters{Samples: n * percent, Time: 7 * n * percent}
			rest := ccmap.Counters{Samples: n * (100 - percent), Time: 7 * n * (100 - percent)}
			s := snapshotOf([]stack{{frames: []frame{{"a", 1}}, counts: item}, {frames: []frame{{"b", 1}}, counts: rest}})
			low, high := compare.PrecisionOf(s, compare.ByTime).Interval(item)
			if low < 0 || high > 100 || low > float64(percent)+1e-9 || high < float64(percent)-1e-9 || high-low >= last {
				t.Errorf("%d %% of %d samples: %v to %v, and of fewer samples %v wide", percent, 100*n, low, high, last)
			}
			last = high - low
		}
	}
}

// TestAlike: items of one share are told apart five times in a hundred, at most, whatever their samples weigh; items of
// twice the share, as a rule, if there are samples enough.
func TestAlike(t *testing.T) {
	t.Parallel()
	const profiles = 400
	random := rand.New(rand.NewPCG(3, 4))
	draw := func(mean float64) int64 {
		return max(0, int64(math.Round(mean+math.Sqrt(mean)*random.NormFloat64())))
	}
	for _, c := range []struct {
		samples, factor float64
		heavier         int64 // a sample of the second item weighs so many times as much
		least, most     int   // percent that are told apart
	}{{100, 1, 1, 0, 7}, {1000, 1, 1, 1, 7}, {400, 1, 4, 1, 7}, {100, 2, 1, 95, 100}, {400, 2, 4, 95, 100}} {
		apart := 0
		for range profiles {
			a, b := draw(c.samples), draw(c.samples*c.factor/float64(c.heavier))
			items := []ccmap.Counters{{Samples: a, Time: a}, {Samples: b, Time: b * c.heavier}, {Samples: 5000, Time: 5000}}
			var stacks []stack
			for i, item := range items {
				stacks = append(stacks, stack{frames: []frame{{fmt.Sprint(i), 1}}, counts: item})
			}
			p, known := compare.PrecisionOf(snapshotOf(stacks), compare.ByTime).Alike(items[0], items[1])
			if back, _ := compare.PrecisionOf(snapshotOf(stacks), compare.ByTime).Alike(items[1], items[0]); !known || p != back {
				t.Fatalf("%+v: probability %v, %v, and the other way round %v", items, p, known, back)
			}
			if p < compare.DefaultLevel {
				apart++
			}
		}
		if percent := 100 * apart / profiles; percent < c.least || percent > c.most {
			t.Errorf("%+v: told apart in %d %% of profiles", c, percent)
		}
	}
	s := snapshotOf([]stack{{frames: []frame{{"a", 1}}, counts: ccmap.Counters{Samples: 9, Time: 9}}})
	if p, known := compare.PrecisionOf(s, compare.ByTime).Alike(s.Total(), ccmap.Counters{}); known || p != 1 {
		t.Errorf("nine samples beside none: %v, %v", p, known)
	}
}
