package compare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// everything asks for all changes.
var everything = compare.DiffOptions{All: true}

func mustDiffer(t testing.TB, a, b *ccmap.Snapshot, o compare.DiffOptions) compare.Diff {
	t.Helper()
	d, err := compare.Differences(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lists(d compare.Diff) map[string]compare.Changes {
	return map[string]compare.Changes{"methods": d.Methods, "edges": d.Edges, "contexts": d.Contexts}
}

// The changes from B to A are the changes from A to B with the opposite sign.
func TestDifferencesAreAntisymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := snapshotOf(drawStacks("a").Draw(t, "a")), snapshotOf(drawStacks("b").Draw(t, "b"))
		o := compare.DiffOptions{All: rapid.Bool().Draw(t, "all"), Limit: rapid.IntRange(0, 5).Draw(t, "limit")}
		ab, err1 := compare.Differences(a, b, o)
		ba, err2 := compare.Differences(b, a, o)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		ba.A, ba.B = ba.B, ba.A
		for _, l := range lists(ba) {
			for i := range l.List {
				c := &l.List[i]
				c.ShareA, c.ShareB = c.ShareB, c.ShareA
				c.SamplesA, c.SamplesB = c.SamplesB, c.SamplesA
				c.Points = -c.Points
			}
		}
		if diff := cmp.Diff(ab, ba); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDifferencesOfOneProfile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := snapshotOf(drawStacks("stacks").Draw(t, "stacks"))
		d, err := compare.Differences(s, s, everything)
		if err != nil {
			t.Fatal(err)
		}
		for kind, l := range lists(d) {
			if l.Significant != 0 || len(l.List) != 0 {
				t.Errorf("%d %s changed: %+v", l.Significant, kind, l.List)
			}
		}
	})
}

// The shares and samples of methods and edges equal the counts of explicit CC-Maps,
// with a stack counted once.
func TestDifferencesEqualExplicitCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawStacks("a").Draw(t, "a"), drawStacks("b").Draw(t, "b")
		kept := func(s stack) int { return len(s.frames) }
		if rapid.Bool().Draw(t, "pruned") {
			kept = func(s stack) int { return min(2, len(s.frames)) }
		}
		d, err := compare.Differences(prunedOf(a, kept), snapshotOf(b), everything)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range d.Methods.List {
			checkOnce(t, c.Path, c.SamplesA, a)
			checkOnce(t, c.Path, c.SamplesB, b)
		}
		for _, c := range d.Edges.List {
			if kept(a[0]) == len(a[0].frames) {
				checkOnce(t, c.Path, c.SamplesB, b)
			}
		}
	})
}

// checkOnce counts the samples of stacks that have a path.
func checkOnce(t *rapid.T, path []compare.Frame, got int64, stacks []stack) {
	text, want := textOf(path), int64(0)
	for _, s := range stacks {
		for from := range s.frames {
			if to := from + len(path); to <= len(s.frames) && pathText(s.frames[from:to]) == text {
				want += s.counts.Samples
				break
			}
		}
	}
	if got != want {
		t.Errorf("%s: %d samples, written out %d", text, got, want)
	}
}

// One sample makes nothing significant, at any depth and weight.
func TestOneSampleIsNotSignificant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := stack{frames: []frame{{"a", 1}}, counts: ccmap.Counters{Samples: 1e6, Time: 1e13}}
		odd := stack{
			frames: rapid.SliceOfN(rapid.Custom(drawFrame), 1, 60).Draw(t, "frames"),
			counts: ccmap.Counters{Samples: 1, Time: rapid.Int64Range(1, 1e15).Draw(t, "weight")},
		}
		odd.frames[0].method = "d"
		a := rapid.SampledFrom([][]stack{{base}, {base, base}}).Draw(t, "a")
		d, err := compare.Differences(snapshotOf(a), snapshotOf([]stack{base, odd}), everything)
		if err != nil {
			t.Fatal(err)
		}
		for kind, l := range lists(d) {
			for _, c := range l.List {
				if c.Significant && c.SamplesA+c.SamplesB < 10 {
					t.Errorf("%s: %+v", kind, c)
				}
			}
		}
	})
}

// Intervals change nothing: not the shares, and not what is significant.
func TestDifferencesAtOtherIntervals(t *testing.T) {
	t.Parallel()
	p := newProgram(60, false)
	a := session{samples: 2000, interval: 10, seed: 1}
	b := session{samples: 2000, interval: 10, seed: 2, shift: 0.2}
	same := mustDiffer(t, a.profile(p), b.profile(p), compare.DiffOptions{})
	b.interval = 1
	other := mustDiffer(t, a.profile(p), b.profile(p), compare.DiffOptions{})
	other.B = same.B
	if diff := cmp.Diff(same, other); diff != "" {
		t.Error(diff)
	}
	if same.Methods.Significant == 0 || same.Edges.Significant == 0 || same.Contexts.Significant == 0 {
		t.Errorf("a shift of 20 %% is not found: %+v", same)
	}
}

// In profiles of one behaviour nothing is significant, 95 times in 100 or more: at
// any sizes and intervals, and with repetitions.
func TestDifferencesOfOneBehaviour(t *testing.T) {
	t.Parallel()
	p := newProgram(60, false)
	trials := 80
	if testing.Short() {
		trials = 20
	}
	found := map[string]int{}
	for trial := range trials {
		a := session{samples: 1000, interval: 10, repeat: 0.3, seed: uint64(2 * trial)}
		b := session{samples: 2000, interval: 2, other: 6, repeat: 0.5, seed: uint64(2*trial + 1)}
		for kind, l := range lists(mustDiffer(t, a.profile(p), b.profile(p), compare.DiffOptions{})) {
			if l.Tested == 0 {
				t.Fatalf("no %s were tested", kind)
			}
			if l.Significant > 0 {
				found[kind]++
			}
		}
	}
	for kind, n := range found {
		if n > trials/10 {
			t.Errorf("%s changed in %d of %d pairs of one behaviour", kind, n, trials)
		}
	}
}

// A context is listed if it makes a change, not if the change passes through it:
// not serve, whose change is made by send.
func TestContextsThatMakeTheChange(t *testing.T) {
	t.Parallel()
	call := func(samples int64, methods ...string) stack {
		s := stack{counts: ccmap.Counters{Samples: samples, Time: samples}}
		for _, m := range methods {
			s.frames = append(s.frames, frame{m, 1})
		}
		return s
	}
	a := snapshotOf([]stack{call(600, "main", "serve", "parse"), call(400, "main", "log"), call(100, "main", "old")})
	b := snapshotOf([]stack{call(100, "main", "serve", "parse"), call(300, "main", "serve", "parse", "lex"),
		call(400, "main", "log"), call(300, "main", "serve", "send")})
	var got []string
	for _, c := range mustDiffer(t, a, b, compare.DiffOptions{}).Contexts.List {
		var path []string
		for _, f := range c.Path {
			path = append(path, f.Method)
		}
		got = append(got, strings.Join(path, " < "))
	}
	want := []string{"lex < parse < serve < main", "send < serve < main", "parse < serve < main", "old < main"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDifferencesLimitAndLeast(t *testing.T) {
	t.Parallel()
	p := newProgram(60, false)
	a := session{samples: 3000, interval: 10, seed: 1}.profile(p)
	b := session{samples: 3000, interval: 10, seed: 2, shift: 0.4}.profile(p)
	all := mustDiffer(t, a, b, compare.DiffOptions{}).Methods
	few := mustDiffer(t, a, b, compare.DiffOptions{Limit: 3}).Methods
	if len(few.List) != 3 || few.More != len(all.List)-3 || few.Significant != all.Significant {
		t.Errorf("3 of %d: %d, and %d more", len(all.List), len(few.List), few.More)
	}
	if diff := cmp.Diff(all.List[:3], few.List); diff != "" {
		t.Errorf("not the largest:\n%s", diff)
	}
	large := mustDiffer(t, a, b, compare.DiffOptions{Least: 5}).Methods
	for _, c := range large.List {
		if math.Abs(c.Points) < 5 {
			t.Errorf("%+v is less than 5 points", c)
		}
	}
	if large.Significant == 0 || large.Significant >= all.Significant || large.Detectable < 5 {
		t.Errorf("%d of %d are 5 points, %v detectable", large.Significant, all.Significant, large.Detectable)
	}
}

// A change as large as is said to be detectable is detected, as a rule.
func TestDetectableIsDetected(t *testing.T) {
	t.Parallel()
	profile := func(points float64) *ccmap.Snapshot {
		n := int64(math.Round(100 * (10 + points)))
		return snapshotOf([]stack{
			{frames: []frame{{"a", 1}}, counts: ccmap.Counters{Samples: n, Time: n}},
			{frames: []frame{{"b", 1}}, counts: ccmap.Counters{Samples: 10_000 - n, Time: 10_000 - n}},
		})
	}
	detectable := mustDiffer(t, profile(0), profile(0), compare.DiffOptions{}).Methods.Detectable
	if got := mustDiffer(t, profile(0), profile(detectable), compare.DiffOptions{}).Methods.Significant; got != 2 {
		t.Errorf("%v points: %d significant, want 2", detectable, got)
	}
	if got := mustDiffer(t, profile(0), profile(detectable/3), compare.DiffOptions{}).Methods.Significant; got != 0 {
		t.Errorf("%v points: %d significant, want none", detectable/3, got)
	}
}

// TestDetectableNineTimesInTen: of many pairs of profiles between which one share has grown by as much as is said to be
// detectable, nine in ten show it, whatever their sizes, the number of things tested, and the least change.
func TestDetectableNineTimesInTen(t *testing.T) {
	t.Parallel()
	const pairs = 300
	for _, c := range []struct {
		a, b  float64 // samples, about
		items int
		least float64
	}{{500, 500, 10, 0}, {300, 1000, 20, 0}, {1000, 300, 5, 0}, {4000, 4000, 40, 0}, {4000, 4000, 10, 8}} {
		random := rand.New(rand.NewPCG(1, uint64(c.items)))
		draw := func(samples, share float64) *ccmap.Snapshot {
			var stacks []stack
			for item := range c.items {
				mean := samples * share
				if item > 0 {
					mean = samples * (1 - share) / float64(c.items-1)
				}
				n := int64(max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64())))
				stacks = append(stacks, stack{frames: []frame{{fmt.Sprint("item", item), 1}}, counts: ccmap.Counters{Samples: n, Time: n}})
			}
			return snapshotOf(stacks)
		}
		o := compare.DiffOptions{Least: c.least}
		detectable := mustDiffer(t, draw(c.a, 0.1), draw(c.b, 0.1), o).Methods.Detectable
		shown := 0
		for range pairs {
			for _, change := range mustDiffer(t, draw(c.a, 0.1), draw(c.b, 0.1+detectable/100), o).Methods.List {
				if change.Path[0].Method == "item0" {
					shown++
				}
			}
		}
		// Chance moves the share of 300 pairs by 1.7 points, and the approximation is some points off.
		if share := 100 * shown / pairs; share < 83 || share > 98 {
			t.Errorf("%+v: a change of %.1f points shows in %d %% of pairs", c, detectable, share)
		}
	}
}

func TestDifferencesErrors(t *testing.T) {
	t.Parallel()
	good := snapshotOf([]stack{{frames: []frame{{"a", 1}}, counts: ccmap.Counters{Samples: 1, Time: 1}}})
	for _, test := range []struct {
		o    compare.DiffOptions
		want string
	}{
		{compare.DiffOptions{Weight: compare.ByActivations}, "find differences: weight is activations: calls that one sample found"},
		{compare.DiffOptions{Weight: 9}, "find differences: Weight(9) is not a weight"},
		{compare.DiffOptions{Level: 1}, "find differences: level is 1: choose one over 0 and under 1"},
		{compare.DiffOptions{Level: math.NaN()}, "find differences: level is NaN"},
		{compare.DiffOptions{Least: -1}, "find differences: least change is -1: choose one from 0 to 100 points"},
		{compare.DiffOptions{Limit: -1}, "find differences: limit is -1"},
		{compare.DiffOptions{Absorb: func(ccmap.Method) bool { return true }},
			"find differences: first profile: nothing to compare by time: all of it is absorbed"},
	} {
		if _, err := compare.Differences(good, good, test.o); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}
