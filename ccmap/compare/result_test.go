package compare_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/google/go-cmp/cmp"
)

// Methods are the same by name and signature, and by nothing else.
func TestCompareMethodIdentity(t *testing.T) {
	t.Parallel()
	one := func(m ccmap.Method) *ccmap.Snapshot {
		cc := ccmap.New(ccmap.Options{})
		cc.Add(cc.Child(cc.Root(), ccmap.NoOffset, cc.Names().Intern(m)), ccmap.Counters{Samples: 1, Time: 1})
		return cc.Snapshot()
	}
	base := ccmap.Method{Name: "f", Signature: "(I)V"}
	for _, test := range []struct {
		name  string
		other ccmap.Method
		want  float64
	}{
		{"described otherwise", ccmap.Method{Name: "f", Signature: "(I)V", File: "f.go", StartLine: 7, Module: "m"}, 100},
		{"other signature", ccmap.Method{Name: "f", Signature: "(J)V"}, 0},
		{"other name", ccmap.Method{Name: "g", Signature: "(I)V"}, 0},
		{"name and signature not run together", ccmap.Method{Name: "f(I)", Signature: "V"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := mustCompare(t, one(base), one(test.other), compare.Options{})
			if got.Methods.Percent != test.want || got.Contexts.Percent != test.want {
				t.Errorf("overlaps %v and %v, want %v", got.Methods.Percent, got.Contexts.Percent, test.want)
			}
			if got.Edges.Percent != 100 {
				t.Errorf("overlap of no edges with none is %v, want 100", got.Edges.Percent)
			}
		})
	}
}

// The line within the innermost method is no part of a path; the line of a
// call is.
func TestComparePositions(t *testing.T) {
	t.Parallel()
	at := func(call, leaf uint32) *ccmap.Snapshot {
		return snapshotOf([]stack{{
			frames: []frame{{"main", call}, {"f", leaf}},
			counts: ccmap.Counters{Samples: 1, Time: 1},
		}})
	}
	got := mustCompare(t, at(1, 5), at(1, 6), compare.Options{})
	if got.Contexts.Percent != 100 || got.UnionNodes != 2 {
		t.Errorf("other leaf line: overlap %v of %d nodes, want 100 of 2", got.Contexts.Percent, got.UnionNodes)
	}
	got = mustCompare(t, at(1, 5), at(2, 5), compare.Options{})
	if got.Methods.Percent != 100 || got.Edges.Percent != 0 {
		t.Errorf("other call line: methods %v, edges %v, want 100 and 0", got.Methods.Percent, got.Edges.Percent)
	}
}

// The four figures are worked out by hand.
func TestCompareCorrelationsAndCoverage(t *testing.T) {
	t.Parallel()
	flat := func(times ...int64) *ccmap.Snapshot {
		var stacks []stack
		for i, v := range times {
			stacks = append(stacks, stack{
				frames: []frame{{"main", 1}, {string(rune('a' + i)), ccmap.NoOffset}},
				counts: ccmap.Counters{Samples: 1, Time: v},
			})
		}
		return snapshotOf(stacks)
	}
	// main, a, b, c, d: 20 10 8 1 1 and 19 10 0 9 0. Deviations from the means
	// 8 and 7.6: 12 2 0 −7 −7 and 11.4 2.4 −7.6 1.4 −7.6.
	got := mustCompare(t, flat(10, 8, 1, 1), flat(10, 0, 9, 0), compare.Options{Tau: 0.8})
	wantPearson := 185 / math.Sqrt(246*253.2)
	if math.Abs(got.Pearson-wantPearson) > 1e-15 {
		t.Errorf("Pearson %v, want %v", got.Pearson, wantPearson)
	}
	// Ranks 5 4 3 1.5 1.5 and 5 4 1.5 3 1.5; deviations from 3:
	// 2 1 0 −1.5 −1.5 and 2 1 −1.5 0 −1.5.
	if want := 7.25 / 9.5; math.Abs(got.Spearman-want) > 1e-15 {
		t.Errorf("Spearman %v, want %v", got.Spearman, want)
	}
	want := compare.Coverage{Tau: 0.8, HotA: 2, HotB: 2, AB: 50, BA: 100}
	if diff := cmp.Diff(want, got.Coverage); diff != "" {
		t.Error(diff)
	}
}

func TestCompareErrors(t *testing.T) {
	t.Parallel()
	counts := func(c ...ccmap.Counters) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		for i, c := range c {
			f := m.Names().Intern(ccmap.Method{Name: string(rune('a' + i))})
			m.Add(m.Child(m.Root(), ccmap.NoOffset, f), c)
		}
		return m.Snapshot()
	}
	good := counts(ccmap.Counters{Samples: 1, Time: 1})
	huge := ccmap.Counters{Samples: 1, Time: math.MaxInt64}
	for _, test := range []struct {
		name    string
		a, b    *ccmap.Snapshot
		options compare.Options
		want    error
		text    string
	}{
		{"empty", counts(), good, compare.Options{}, compare.ErrEmpty,
			"compare profiles: first profile: nothing to compare by time: it has 0 samples, a weight of 0 and 0 activations"},
		{"no activations", good, good, compare.Options{Weight: compare.ByActivations}, compare.ErrEmpty,
			"compare profiles: first profile: nothing to compare by activations: it has 1 samples, a weight of 1 and 0 activations"},
		{"no time", good, counts(ccmap.Counters{Samples: 3}), compare.Options{}, compare.ErrEmpty,
			"compare profiles: second profile: nothing to compare by time: it has 3 samples, a weight of 0 and 0 activations"},
		{"absorbed", good, good, compare.Options{Absorb: func(ccmap.Method) bool { return true }}, compare.ErrEmpty,
			"compare profiles: first profile: nothing to compare by time: all of it is absorbed"},
		{"negative", counts(ccmap.Counters{Time: -5}), good, compare.Options{}, compare.ErrEmpty, ""},
		{"tau over 1", good, good, compare.Options{Tau: 1.5}, nil, "compare profiles: tau is 1.5: choose one over 0 and up to 1"},
		{"tau negative", good, good, compare.Options{Tau: -1}, nil, ""},
		{"tau not a number", good, good, compare.Options{Tau: math.NaN()}, nil, ""},
		{"weight", good, good, compare.Options{Weight: 9}, nil, "compare profiles: Weight(9) is not a weight"},
		{"largest", counts(huge, huge), counts(huge, huge), compare.Options{}, nil, "none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := compare.Compare(test.a, test.b, test.options)
			if test.text == "none" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%v is not %v", err, test.want)
			}
			if test.text != "" && err.Error() != test.text {
				t.Errorf("got  %s\nwant %s", err, test.text)
			}
		})
	}
}

// session is how a behaviour is sampled.
type session struct {
	samples int
	// The interval in ms; after half of the samples, the other one. 0: no change.
	interval, other int
	repeat          float64 // probability that a sample finds the same activation as the last one
	shift           float64 // probability that it finds another behaviour
	seed            uint64
}

// profile samples a program. The calls of one method are one behaviour, the calls
// of another method another one.
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

// Two profiles of one behaviour are the same, at all sizes and intervals: at least
// 37 times in 40 without any tolerance, and always with the default one. Where
// samples repeat, noise is underrated by up to about a point, which is within the
// tolerance.
func TestVerdictOfOneBehaviour(t *testing.T) {
	t.Parallel()
	trials := 40
	if testing.Short() || !testrun.IsFull() {
		trials = 10
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
			if test.strict && differ > 3 || beyond > 0 {
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

// Profiles that name system calls are compared by system call. A profile that names none
// overlaps with them as if they named none either.
func TestCompareSystemCalls(t *testing.T) {
	t.Parallel()
	profile := func(calls map[string]int64) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		main := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main"}))
		m.Add(main, ccmap.Counters{Samples: 100, Time: 100})
		for call, n := range calls {
			kernel := m.Names().Intern(ccmap.Method{Name: ccmap.KernelName, Signature: call})
			m.Add(m.Child(main, 1, kernel), ccmap.Counters{Samples: n, Time: n})
		}
		return m.Snapshot()
	}
	plain := profile(map[string]int64{"": 100})
	inside := func(functions ...string) *ccmap.Snapshot { // of a system call that took 80 of 200
		m := ccmap.New(ccmap.Options{})
		at := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main"}))
		m.Add(at, ccmap.Counters{Samples: 100, Time: 100})
		m.Add(m.Child(at, 1, m.Names().Intern(ccmap.Method{Name: ccmap.KernelName})), ccmap.Counters{Samples: 10, Time: 10})
		m.Add(m.Child(at, 1, m.Names().Intern(ccmap.Method{Name: ccmap.KernelName, Signature: "futex"})), ccmap.Counters{Samples: 10, Time: 10})
		site := uint32(1)
		for i, name := range append([]string{"read"}, functions...) {
			at = m.Child(at, site, m.Names().Intern(ccmap.Method{Name: ccmap.KernelName, Signature: name}))
			share := int64(80 / (len(functions) + 1))
			if i == 0 {
				share = 80 - share*int64(len(functions))
			}
			m.Add(at, ccmap.Counters{Samples: share, Time: share})
			site = ccmap.NoOffset
		}
		return m.Snapshot()
	}
	deep := inside("vfs_read", "pipe_read")
	reads, writes := profile(map[string]int64{"": 10, "read": 80, "futex": 10}), profile(map[string]int64{"": 20, "write": 80})
	for _, test := range []struct {
		name    string
		a, b    *ccmap.Snapshot
		percent float64 // of the edges
		changes []string
	}{
		{"of engines", plain, reads, 100, []string{}},
		{"the other way round", reads, plain, 100, []string{}},
		{"of one engine", reads, writes, 10, []string{"read", "write"}},
		{"of itself", reads, reads, 100, []string{}},
		{"with the kernel's functions", deep, reads, 100, []string{}},
		{"with the kernel's functions, of engines", plain, deep, 100, []string{}},
		{"both with the kernel's functions", deep, deep, 100, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := mustCompare(t, test.a, test.b, compare.Options{})
			if r.Edges.Percent != test.percent {
				t.Errorf("edges overlap by %v %%, want %v", r.Edges.Percent, test.percent)
			}
			d, err := compare.Differences(test.a, test.b, compare.DiffOptions{Least: 20})
			if err != nil {
				t.Fatal(err)
			}
			changes := []string{}
			for _, c := range d.Edges.List {
				changes = append(changes, c.Path[0].Signature)
			}
			slices.Sort(changes)
			if diff := cmp.Diff(test.changes, changes); diff != "" {
				t.Errorf("edges that changed (-want +got):\n%s", diff)
			}
		})
	}
}
