package compare_test

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// many makes the samples of stacks enough for a verdict.
func many(stacks []stack) []stack {
	for i := range stacks {
		n := stacks[i].counts.Samples%20 + 1
		stacks[i].counts = ccmap.Counters{Samples: 100 * n, Time: 1000 * n, Activations: 1}
	}
	return stacks
}

// Families have the counts of their paths in the CC-Maps written out, and where
// none was left out they account for all of the difference.
func TestFamiliesAccountForTheDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := many(drawStacks("a").Draw(t, "a")), many(drawStacks("b").Draw(t, "b"))
		got, err := compare.Compare(snapshotOf(a), snapshotOf(b), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, timesA := explicit(a, compare.ByTime)
		_, _, timesB := explicit(b, compare.ByTime)
		_, _, samplesA := explicit(a, compare.BySamples)
		points, last := 0.0, math.Inf(1)
		for _, f := range got.Families {
			path := textOf(f.Path)
			checkCount(t, path, "samples of A", f.SamplesA, samplesA[path])
			checkShare(t, path, "A", f.ShareA, timesA[path], got.A.Weight)
			checkShare(t, path, "B", f.ShareB, timesB[path], got.B.Weight)
			if f.Points > last || f.Points <= 0 || f.Paths == 0 {
				t.Errorf("%s: %v points of %d paths after %v", path, f.Points, f.Paths, last)
			}
			last = f.Points
			points += f.Points
		}
		short := 100 - got.Contexts.Percent
		switch n := len(got.Families); {
		case n > 10 || points > short+1e-9:
			t.Errorf("%d families account for %v of %v points", n, points, short)
		case got.Verdict == compare.Differs && n < 10 && math.Abs(points-short) > 1e-9:
			t.Errorf("all %d families account for %v of %v points", n, points, short)
		}
	})
}

// textOf returns the path in the way of pathText. Methods of stacks are in no file,
// so their calls have no line.
func textOf(path []compare.Frame) string {
	var frames []frame
	for i := len(path) - 1; i >= 0; i-- {
		offset := ccmap.NoOffset
		if n, err := strconv.Atoi(path[i].Position); err == nil {
			offset = uint32(n)
		}
		frames = append(frames, frame{path[i].Method, offset})
	}
	return pathText(frames)
}

func checkCount(t *rapid.T, path, name string, got int64, want *big.Int) {
	if want == nil {
		want = new(big.Int)
	}
	if want.Cmp(big.NewInt(got)) != 0 {
		t.Errorf("%s: %s: %d, written out %v", path, name, got, want)
	}
}

func checkShare(t *rapid.T, path, name string, got float64, value *big.Int, all int64) {
	want := 0.0
	if value != nil {
		want, _ = new(big.Rat).SetFrac(value, big.NewInt(all)).Float64()
	}
	if math.Abs(got-100*want) > 1e-9 {
		t.Errorf("%s: share of %s is %v, written out %v", path, name, got, 100*want)
	}
}

// The expected values are computed by hand. In A main calls only f, in B f and g. A
// stack has 3 counters: f and main > f lose half, and g and main > g gain it.
func TestFamilies(t *testing.T) {
	t.Parallel()
	profile := func(f, g int64) *ccmap.Snapshot {
		call := func(method string, samples int64) stack {
			return stack{
				frames: []frame{{"main", 1}, {method, 2}},
				counts: ccmap.Counters{Samples: samples, Time: samples * 10},
			}
		}
		return snapshotOf([]stack{call("f", f), call("g", g)})
	}
	got := mustCompare(t, profile(1000, 0), profile(1000, 1000), compare.Options{})
	main := compare.Frame{Method: "main", Position: "+1"}
	family := func(method string, path ...compare.Frame) compare.Family {
		f := compare.Family{
			Path:  append([]compare.Frame{{Method: method}}, path...),
			Paths: 1, Points: 100.0 / 12, ShareB: 50, SamplesB: 1000,
		}
		if method == "f" {
			f.ShareA, f.SamplesA = 100, 1000
		}
		return f
	}
	want := []compare.Family{family("f"), family("f", main), family("g"), family("g", main)}
	if diff := cmp.Diff(want, got.Families, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("%v, contexts %v:\n%s", got.Verdict, got.Contexts.Percent, diff)
	}
}
