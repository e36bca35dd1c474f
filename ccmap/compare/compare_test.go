package compare_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

var weights = []compare.Weight{compare.ByTime, compare.BySamples, compare.ByActivations}

// mustCompare fails the test on an error.
func mustCompare(t testing.TB, a, b *ccmap.Snapshot, o compare.Options) compare.Result {
	t.Helper()
	r, err := compare.Compare(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCompareEqualsExplicitSum compares the overlap with the overlap of explicit
// CC-Maps, to the last bit of the float64: both are rounded once, from the exact
// fraction.
func TestCompareEqualsExplicitSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawStacks("a").Draw(t, "a"), drawStacks("b").Draw(t, "b")
		w := rapid.SampledFrom(weights).Draw(t, "weight")
		got, err := compare.Compare(snapshotOf(a), snapshotOf(b, "c", "x", "b"), compare.Options{Weight: w})
		if err != nil {
			t.Fatal(err)
		}
		methodsA, edgesA, contextsA := explicit(a, w)
		methodsB, edgesB, contextsB := explicit(b, w)
		checkOverlap(t, "methods", got.Methods, methodsA, methodsB)
		checkOverlap(t, "edges", got.Edges, edgesA, edgesB)
		checkOverlap(t, "contexts", got.Contexts, contextsA, contextsB)
	})
}

func checkOverlap(t *rapid.T, name string, got compare.Overlap, a, b counters) {
	if want := explicitOverlap(a, b); got.Percent != want {
		t.Errorf("%s overlap %v, the explicit sum gives %v", name, got.Percent, want)
	}
	if want := present(a, b); got.Counters != want {
		t.Errorf("%s: %d counters, written out there are %d", name, got.Counters, want)
	}
}

func TestCompareWithItselfIsExactly100(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stacks := drawStacks("stacks").Draw(t, "stacks")
		w := rapid.SampledFrom(weights).Draw(t, "weight")
		got, err := compare.Compare(snapshotOf(stacks), snapshotOf(stacks, "c", "b"), compare.Options{Weight: w})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []compare.Overlap{got.Methods, got.Edges, got.Contexts} {
			if o.Percent != 100 {
				t.Errorf("overlap %v, want 100", o.Percent)
			}
		}
		if got.Pearson != 1 || got.Spearman != 1 {
			t.Errorf("correlations %v and %v, want 1", got.Pearson, got.Spearman)
		}
		if got.Coverage.AB != 100 || got.Coverage.BA != 100 {
			t.Errorf("coverage %+v, want 100", got.Coverage)
		}
	})
}

func TestCompareIsSymmetricAndInRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := snapshotOf(drawStacks("a").Draw(t, "a")), snapshotOf(drawStacks("b").Draw(t, "b"))
		o := compare.Options{Weight: rapid.SampledFrom(weights).Draw(t, "weight"), Seed: rapid.Uint64().Draw(t, "seed")}
		ab, err1 := compare.Compare(a, b, o)
		ba, err2 := compare.Compare(b, a, o)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if diff := cmp.Diff(ab, reversed(ba)); diff != "" {
			t.Errorf("Compare(b, a) is not the reverse of Compare(a, b):\n%s", diff)
		}
		for _, o := range []compare.Overlap{ab.Methods, ab.Edges, ab.Contexts} {
			for _, percent := range []float64{o.Percent, o.Floor, o.FloorA, o.FloorB, ab.Coverage.AB, ab.Coverage.BA} {
				if !(percent >= 0 && percent <= 100) {
					t.Errorf("%+v: not all percentages are", o)
				}
			}
		}
		for _, r := range []float64{ab.Pearson, ab.Spearman} {
			if !(r >= -1 && r <= 1) {
				t.Errorf("correlation is %v", r)
			}
		}
	})
}

// reversed returns the result with its profiles exchanged.
func reversed(r compare.Result) compare.Result {
	r.A, r.B = r.B, r.A
	for _, o := range []*compare.Overlap{&r.Methods, &r.Edges, &r.Contexts} {
		o.FloorA, o.FloorB = o.FloorB, o.FloorA
	}
	r.Families = slices.Clone(r.Families)
	for i := range r.Families {
		f := &r.Families[i]
		f.ShareA, f.ShareB = f.ShareB, f.ShareA
		f.SamplesA, f.SamplesB = f.SamplesB, f.SamplesA
	}
	c := &r.Coverage
	c.AB, c.BA, c.HotA, c.HotB = c.BA, c.AB, c.HotB, c.HotA
	return r
}

// A program that only calls itself has a single edge, however deep its stacks. A stack of n
// frames has n−l+1 sub-paths of length l.
func TestCompareDeepRecursion(t *testing.T) {
	t.Parallel()
	depthA, depthB := 200_000, 50_000
	if testing.Short() {
		depthA, depthB = 2_000, 500
	}
	got := mustCompare(t, recursion(depthA), recursion(depthB), compare.Options{})
	want := new(big.Rat)
	sum := func(n int) int64 { return int64(n) * int64(n+1) / 2 }
	for l := 1; l <= depthB; l++ {
		a := big.NewRat(int64(depthA-l+1), sum(depthA))
		b := big.NewRat(int64(depthB-l+1), sum(depthB))
		if a.Cmp(b) > 0 {
			a = b
		}
		f, _ := a.Float64()
		want.Add(want, new(big.Rat).SetFloat64(f))
	}
	percent, _ := want.Mul(want, big.NewRat(100, 1)).Float64()
	// The terms are rounded here to keep the sum's denominator small.
	if math.Abs(got.Contexts.Percent-percent) > 1e-9 {
		t.Errorf("overlap %v, want %v", got.Contexts.Percent, percent)
	}
	if got.Contexts.Counters != uint64(depthA) {
		t.Errorf("%d counters, want one for each length up to %d", got.Contexts.Counters, depthA)
	}
}

func recursion(depth int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	r := m.Names().Intern(ccmap.Method{Name: "r"})
	node := m.Root()
	for range depth {
		node = m.Child(node, 1, r)
	}
	m.Add(node, ccmap.Counters{Samples: 1, Time: 1})
	return m.Snapshot()
}

// A map that was folded equals one that was built node by node.
func TestCompareFolded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stacks := drawStacks("stacks").Draw(t, "stacks")
		folded := ccmap.New(ccmap.Options{})
		for i := range stacks {
			stacks[i].counts = ccmap.Counters{Samples: 1, Time: int64(i + 1)}
			folded.Fold(sampleOf(folded.Names(), stacks[i]))
		}
		got, err := compare.Compare(snapshotOf(stacks), folded.Snapshot(), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Contexts.Percent != 100 || got.A.Weight != got.B.Weight {
			t.Errorf("overlap %v, weights %d and %d", got.Contexts.Percent, got.A.Weight, got.B.Weight)
		}
	})
}

func sampleOf(names *ccmap.Names, s stack) *ccmap.Sample {
	sample := &ccmap.Sample{Thread: 1, Weight: s.counts.Time, Fresh: ccmap.FreshUnknown}
	for _, f := range slices.Backward(s.frames) {
		method := names.Intern(ccmap.Method{Name: f.method})
		sample.Frames = append(sample.Frames, ccmap.Frame{Method: method, Offset: f.offset})
	}
	return sample
}

// The floor predicts the overlap of two profiles that have half the samples each. Two
// profiles with all the samples overlap more.
func TestFloorIsThatOfTheProgram(t *testing.T) {
	t.Parallel()
	p := newProgram(50, false)
	run := func(samples int, seed uint64) *ccmap.Snapshot {
		m, r := p.newMap(), rand.New(rand.NewPCG(seed, 4))
		for range samples {
			p.sample(m, r)
		}
		return m.Snapshot()
	}
	sizes := []int{100, 1_000, 10_000}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, samples := range sizes {
		whole := mustCompare(t, run(samples, 1), run(samples, 2), compare.Options{}).Contexts
		halves := mustCompare(t, run(samples/2, 3), run(samples/2, 4), compare.Options{}).Contexts
		if math.Abs(whole.Floor-halves.Percent) > 5 || whole.Percent < whole.Floor {
			t.Errorf("%d samples overlap %.1f with floor %.1f; half of them overlap %.1f",
				samples, whole.Percent, whole.Floor, halves.Percent)
		}
	}
}

// Two goroutines may compare the same snapshots.
func TestCompareConcurrently(t *testing.T) {
	t.Parallel()
	stacks := []stack{{frames: []frame{{"a", 1}, {"b", 2}, {"a", 1}}, counts: ccmap.Counters{Samples: 5, Time: 5}}}
	a, b := snapshotOf(stacks), snapshotOf(stacks)
	results := make([]compare.Result, 4)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i], _ = compare.Compare(a, b, compare.Options{}) })
	}
	group.Wait()
	for _, r := range results {
		if diff := cmp.Diff(results[0], r); diff != "" || r.Contexts.Percent != 100 {
			t.Errorf("overlap %v; differs by:\n%s", r.Contexts.Percent, diff)
		}
	}
}

// Absorbing a method cuts every stack before the first call of the method.
func TestAbsorbCutsStacks(t *testing.T) {
	t.Parallel()
	absorb := func(m ccmap.Method) bool { return m.Name == "c" }
	always := stack{
		frames: []frame{{"a", 1}, {"b", 2}},
		counts: ccmap.Counters{Samples: 1, Time: 1, Activations: 1},
	}
	rapid.Check(t, func(t *rapid.T) {
		a := append(drawStacks("a").Draw(t, "a"), always)
		b := append(drawStacks("b").Draw(t, "b"), always)
		w := rapid.SampledFrom(weights).Draw(t, "weight")
		got, err := compare.Compare(snapshotOf(a), snapshotOf(b), compare.Options{Weight: w, Absorb: absorb})
		if err != nil {
			t.Fatal(err)
		}
		methodsA, edgesA, contextsA := explicit(cutBefore(a, "c", w), w)
		methodsB, edgesB, contextsB := explicit(cutBefore(b, "c", w), w)
		checkOverlap(t, "methods", got.Methods, methodsA, methodsB)
		checkOverlap(t, "edges", got.Edges, edgesA, edgesB)
		checkOverlap(t, "contexts", got.Contexts, contextsA, contextsB)
	})
}

// cutBefore drops the frames from the first one of a method on. The calls of
// dropped frames do not count; their time counts for the caller.
func cutBefore(stacks []stack, method string, w compare.Weight) []stack {
	var out []stack
	for _, s := range stacks {
		for i, f := range s.frames {
			if f.method == method {
				s.frames = s.frames[:i]
				if w == compare.ByActivations {
					s.counts.Activations = 0
				}
				break
			}
		}
		if len(s.frames) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// TestUnlikeProfilesAreNotCompared: the error names both units. Samples without a unit can
// be compared by their number, and calls can always be compared.
func TestUnlikeProfilesAreNotCompared(t *testing.T) {
	t.Parallel()
	of := func(u ccmap.Unit) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		m.Meta().Unit = u
		m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "f"})), ccmap.Counters{Samples: 1, Time: 1, Activations: 1})
		return m.Snapshot()
	}
	cpu, heap, counted := of(ccmap.CPUTime), of(ccmap.NewUnit("inuse_space", "bytes")), of(ccmap.SampleCount)
	for _, test := range []struct {
		a, b    *ccmap.Snapshot
		options compare.Options
		refused bool
	}{
		{cpu, heap, compare.Options{}, true},
		{cpu, heap, compare.Options{Weight: compare.BySamples}, true},
		{cpu, heap, compare.Options{Weight: compare.ByActivations}, false},
		{cpu, heap, compare.Options{AnyUnit: true}, false},
		{heap, heap, compare.Options{}, false},
		{cpu, counted, compare.Options{}, true},
		{cpu, counted, compare.Options{Weight: compare.BySamples}, false},
	} {
		_, err := compare.Compare(test.a, test.b, test.options)
		if errors.Is(err, ccmap.ErrUnlike) != test.refused {
			t.Errorf("%v and %v, %+v: %v", test.a.Meta().Unit, test.b.Meta().Unit, test.options, err)
		}
	}
	_, err := compare.Differences(cpu, heap, compare.DiffOptions{})
	if !errors.Is(err, ccmap.ErrUnlike) || !strings.Contains(err.Error(), `"cpu/nanoseconds" and "inuse_space/bytes"`) {
		t.Errorf("differences: %v", err)
	}
}

func TestWeightText(t *testing.T) {
	t.Parallel()
	for _, w := range weights {
		text, err := w.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back compare.Weight
		if err := back.UnmarshalText(text); err != nil || back != w {
			t.Errorf("%q is read as %v, %v", text, back, err)
		}
	}
	if _, err := compare.Weight(9).MarshalText(); err == nil {
		t.Error("Weight(9) has a text")
	}
	w := compare.BySamples
	if err := w.UnmarshalText([]byte("money")); err == nil || w != compare.BySamples {
		t.Errorf("weight by money is read as %v, %v", w, err)
	}
}

// deep returns a profile of stacks of 1 to 80 methods that lead down to the same leaf,
// in steps of 5; more than most frames are cut from outside, as runtime/pprof does.
func deep(most int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	id := func(i int) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", i)}) }
	for depth := 1; depth <= 80; depth += 5 {
		at, first := m.Root(), max(0, depth-most)
		for i := first; i < depth; i++ {
			offset := uint32(3)
			if i == first {
				offset = ccmap.NoOffset
			}
			at = m.Child(at, offset, id(80-depth+i))
		}
		at = m.Child(at, 7, ccmap.NoMethod)
		m.Add(at, ccmap.Counters{Samples: 50, Time: 50})
	}
	return m.Snapshot()
}

// TestStacksAreCutAlike: a profile whose stacks were cut at 64 frames is the same as
// one that has them whole.
func TestStacksAreCutAlike(t *testing.T) {
	t.Parallel()
	whole, cut := deep(1000), deep(64)
	for _, pair := range [][2]*ccmap.Snapshot{{whole, cut}, {cut, whole}} {
		r, err := compare.Compare(pair[0], pair[1], compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.CutAt != 64 || r.Contexts.Percent != 100 || r.A.Samples != 800 || r.B.Samples != 800 {
			t.Errorf("cut at %d, contexts overlap by %v %%, %d and %d samples", r.CutAt, r.Contexts.Percent, r.A.Samples, r.B.Samples)
		}
		d, err := compare.Differences(pair[0], pair[1], compare.DiffOptions{})
		if err != nil || d.CutAt != 64 || len(d.Contexts.List)+len(d.Methods.List) > 0 {
			t.Errorf("differences, cut at %d: %+v, %v", d.CutAt, d.Contexts, err)
		}
	}
	for _, pair := range [][2]*ccmap.Snapshot{{whole, whole}, {cut, cut}, {whole, deep(50)}} {
		r, err := compare.Compare(pair[0], pair[1], compare.Options{})
		if err != nil || r.CutAt != 0 {
			t.Errorf("cut at %d, %v; want no cut", r.CutAt, err)
		}
	}
}
