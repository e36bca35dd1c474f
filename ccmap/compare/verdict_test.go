package compare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// session is how a behaviour is sampled.
type session struct {
	samples int
	// The interval in ms; after half of the samples, the other one. 0: no change.
	interval, other int
	repeat          float64 // how probable it is that a sample finds what the last one found
	shift           float64 // how probable it is that it finds another behaviour
	seed            uint64
}

// profile samples a program, in which the calls of a method are a behaviour, and
// those of another method another one.
func (s session) profile(p program) *ccmap.Snapshot {
	m, r := p.newMap(), rand.New(rand.NewPCG(s.seed, 5))
	meta := m.Meta()
	stack, elapsed := []ccmap.Frame(nil), time.Duration(0)
	for i := range s.samples {
		interval := time.Duration(s.interval) * time.Millisecond
		if s.other != 0 && i >= s.samples/2 {
			interval = time.Duration(s.other) * time.Millisecond
		}
		if n := len(meta.Interval); n == 0 || meta.Interval[n-1].Interval != interval {
			meta.Interval = append(meta.Interval, ccmap.IntervalChange{At: elapsed, Interval: interval})
		}
		if i == 0 || r.Float64() >= s.repeat {
			stack = p.stack(r, s.shift)
		} else {
			meta.Repeated++
		}
		meta.Known++
		elapsed += interval
		m.Fold(&ccmap.Sample{Frames: stack, Thread: 1, Weight: int64(interval), Fresh: ccmap.FreshUnknown})
	}
	meta.Duration = elapsed
	return m.Snapshot()
}

// stack returns a random stack, innermost frame first.
func (p program) stack(r *rand.Rand, shift float64) []ccmap.Frame {
	method := ccmap.MethodID(r.IntN(4))
	if r.Float64() < shift {
		method = ccmap.MethodID(len(p) / 2)
	}
	var frames []ccmap.Frame
	for range 4 + r.IntN(10) {
		calls := p[method]
		call := calls[min(r.IntN(len(calls)), r.IntN(len(calls)))]
		frames = append(frames, ccmap.Frame{Method: method, Offset: call.Offset})
		method = call.Method
	}
	frames = append(frames, ccmap.Frame{Method: method, Offset: ccmap.NoOffset})
	for i, j := 0, len(frames)-1; i < j; i, j = i+1, j-1 {
		frames[i], frames[j] = frames[j], frames[i]
	}
	return frames
}

// Two profiles of one behaviour are the same, whatever their sizes and intervals:
// 98 times in 100 or more without any tolerance, and always with the one there is.
// Where samples repeat, noise is underrated by up to a point or so, which is within
// the tolerance.
func TestVerdictOfOneBehaviour(t *testing.T) {
	t.Parallel()
	trials := 100
	if testing.Short() {
		trials = 20
	}
	for _, test := range []struct {
		name   string
		a, b   session
		strict bool
	}{
		{"equal", session{samples: 1000, interval: 10}, session{samples: 1000, interval: 10}, true},
		{"sizes", session{samples: 400, interval: 10}, session{samples: 3000, interval: 10}, true},
		{"intervals", session{samples: 500, interval: 10}, session{samples: 2500, interval: 2}, true},
		{"changing", session{samples: 1000, interval: 10, other: 40}, session{samples: 1000, interval: 10}, true},
		{"repeating", session{samples: 1000, interval: 10, repeat: 0.15}, session{samples: 1000, interval: 10, repeat: 0.15}, false},
		{"much", session{samples: 1500, interval: 10, repeat: 0.5}, session{samples: 1500, interval: 10, repeat: 0.5}, false},
		{"all", session{samples: 3000, interval: 1, other: 4, repeat: 0.15}, session{samples: 600, interval: 10}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(60, false)
			differ, beyond := 0, 0
			for trial := range trials {
				test.a.seed, test.b.seed = uint64(2*trial), uint64(2*trial+1)
				got := mustCompare(t, test.a.profile(p), test.b.profile(p), compare.Options{Seed: uint64(trial)})
				if got.Verdict == compare.Differs {
					differ++
				}
				if got.Contexts.Unexplained > compare.DefaultTolerance {
					beyond++
				}
				if got.Verdict == compare.TooFew {
					t.Fatalf("%d samples are too few: %+v", got.A.Samples, got.Contexts)
				}
			}
			t.Logf("%d of %d differ", differ, trials)
			if most := max(3, trials/20); test.strict && differ > most || beyond > 0 {
				t.Errorf("%d of %d differ, %d by more than the tolerance", differ, trials, beyond)
			}
		})
	}
}

// What is expected is the mean of what is found, and varies as much.
func TestExpectedIsWhatIsFound(t *testing.T) {
	t.Parallel()
	p := newProgram(60, false)
	for _, repeat := range []float64{0, 0.2} {
		const trials = 40
		var found, squares, expected, variance float64
		for trial := range uint64(trials) {
			a := session{samples: 500, interval: 10, repeat: repeat, seed: 2 * trial}
			b := session{samples: 1000, interval: 5, repeat: repeat, seed: 2*trial + 1}
			c := mustCompare(t, a.profile(p), b.profile(p), compare.Options{Seed: trial}).Contexts
			found += c.Percent / trials
			squares += c.Percent * c.Percent / trials
			expected += c.Expected / trials
			variance += c.Deviation * c.Deviation / trials
		}
		deviation, want := math.Sqrt(variance), math.Sqrt(squares-found*found)
		t.Logf("repeat %v: found %.2f ± %.2f, expected %.2f ± %.2f", repeat, found, want, expected, deviation)
		if math.Abs(found-expected) > 1 || math.Abs(deviation/want-1) > 0.35 {
			t.Errorf("repeat %v: found %.2f ± %.2f, expected %.2f ± %.2f", repeat, found, want, expected, deviation)
		}
	}
}

// A shift of a few points is found, and named.
func TestVerdictOfShift(t *testing.T) {
	t.Parallel()
	p := newProgram(60, false)
	for _, test := range []struct {
		shift   float64
		samples int
		want    compare.Verdict
	}{
		{0.02, 3000, compare.Same}, // less than is tolerated
		{0.10, 3000, compare.Differs},
		{0.08, 30_000, compare.Differs},
		{0.5, 60, compare.TooFew},
		{1, 90, compare.TooFew},
	} {
		a := session{samples: test.samples, interval: 10, seed: 1}
		b := session{samples: test.samples, interval: 4, seed: 2, shift: test.shift}
		got := mustCompare(t, a.profile(p), b.profile(p), compare.Options{Tolerance: compare.DefaultTolerance})
		if got.Verdict != test.want {
			t.Errorf("shift %v of %d samples: %v, want %v: %+v", test.shift, test.samples, got.Verdict, test.want, got.Contexts)
		}
		if (len(got.Families) > 0) != (got.Verdict == compare.Differs) {
			t.Errorf("shift %v: %d families", test.shift, len(got.Families))
		}
	}
}

// Where every sample has a context of its own, an overlap says nothing.
func TestVerdictOfNovelContexts(t *testing.T) {
	t.Parallel()
	novel := func(prefix string) *ccmap.Snapshot {
		var stacks []stack
		for i := range 1000 {
			stacks = append(stacks, stack{
				frames: []frame{{fmt.Sprint(prefix, i), 1}},
				counts: ccmap.Counters{Samples: 1, Time: 1},
			})
		}
		return snapshotOf(stacks)
	}
	got := mustCompare(t, novel("a"), novel("b"), compare.Options{})
	if got.Verdict != compare.TooFew || got.Contexts.Expected != 0 {
		t.Errorf("verdict: %v: %+v", got.Verdict, got.Contexts)
	}
}

func TestVerdictText(t *testing.T) {
	t.Parallel()
	for _, v := range []compare.Verdict{compare.TooFew, compare.Same, compare.Differs} {
		text, err := v.MarshalText()
		var back compare.Verdict
		if err != nil || back.UnmarshalText(text) != nil || back != v {
			t.Errorf("%v: %q, %v, back %v", v, text, err, back)
		}
	}
	if _, err := compare.Verdict(9).MarshalText(); err == nil {
		t.Error("verdict 9 has a text")
	}
	if err := new(compare.Verdict).UnmarshalText([]byte("perhaps")); err == nil {
		t.Error("perhaps is a verdict")
	}
}
