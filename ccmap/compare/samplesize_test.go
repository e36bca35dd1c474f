package compare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The figures are worked out by hand.
func TestDesignEffect(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	steady := []ccmap.IntervalChange{{Interval: 10 * ms}}
	// Of 2 s, 1 s at 10 ms and 1 s at 40 ms: 125 samples, of 16 ms on average,
	// with a mean square of 400 ms².
	changed := []ccmap.IntervalChange{{Interval: 10 * ms}, {At: s, Interval: 40 * ms}}
	for _, test := range []struct {
		name   string
		meta   ccmap.Meta
		weight Weight
		want   float64
	}{
		{"nothing known", ccmap.Meta{}, ByTime, 1},
		{"few verdicts", ccmap.Meta{Known: 29, Repeated: 29}, ByTime, 1},
		{"a third", ccmap.Meta{Known: 30, Repeated: 10}, ByTime, 2},
		{"a third, by samples", ccmap.Meta{Known: 30, Repeated: 10, Interval: changed, Duration: 2 * s}, BySamples, 2},
		{"all", ccmap.Meta{Known: 100, Repeated: 100}, ByTime, 199},
		{"more than all", ccmap.Meta{Known: 100, Repeated: 1000}, ByTime, 199},
		{"calls", ccmap.Meta{Known: 100, Repeated: 50}, ByActivations, 1},
		{"steady", ccmap.Meta{Interval: steady, Duration: 2 * s}, ByTime, 1},
		{"changed", ccmap.Meta{Interval: changed, Duration: 2 * s}, ByTime, 400.0 / 256},
		{"changed, no duration", ccmap.Meta{Interval: changed}, ByTime, 1},
		{"both", ccmap.Meta{Known: 30, Repeated: 10, Interval: changed, Duration: 2 * s}, ByTime, 800.0 / 256},
		{"hostile", ccmap.Meta{Interval: []ccmap.IntervalChange{{At: s, Interval: -1}, {At: -s}}, Duration: 2 * s}, ByTime, 1},
	} {
		if got := newSampleSize(test.meta, test.weight, nil).effect; math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Visits are found again from the samples of contexts that were visited by a known
// law: five of ten once, three twice, and two three times.
func TestVisits(t *testing.T) {
	t.Parallel()
	const r, contexts = 0.4, 200_000
	random := rand.New(rand.NewPCG(1, 1))
	var at []counted
	var samples, once [few + 1]float64 // contexts by their samples
	for i := range contexts {
		visited := []int{1, 1, 1, 1, 1, 2, 2, 2, 3, 3}[i%10]
		n := visited
		for left := visited; left > 0; {
			if random.Float64() < r {
				n++
			} else {
				left--
			}
		}
		at = append(at, counted{observations: uint64(n)})
		if n <= few {
			samples[n]++
			if visited == 1 {
				once[n]++
			}
		}
	}
	v := newVisits(r, at)
	for n := 1; n <= 6; n++ {
		if got, want := v[n][1], once[n]/samples[n]; math.Abs(got-want) > 0.05 {
			t.Errorf("%d samples: once with probability %.3f, want %.3f", n, got, want)
		}
		if k, known := v.draw(uint64(n), random); !known || k < 1 || k > uint64(n) {
			t.Errorf("%d samples: drew %d visits", n, k)
		}
	}
	if _, known := v.draw(few+1, random); known {
		t.Error("visits of many samples are known")
	}
	if _, known := visits(nil).draw(1, random); known {
		t.Error("visits are known where nothing repeats")
	}
}
