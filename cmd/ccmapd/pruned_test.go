package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// prunedPair returns two profiles of the same samples, of which the second was
// pruned of all contexts now and then.
func prunedPair(t *rapid.T) (full, pruned *profile) {
	names := ccmap.NewNames()
	a, b := ccmap.New(ccmap.Options{Names: names}), ccmap.New(ccmap.Options{Names: names})
	for range rapid.IntRange(1, 3).Draw(t, "rounds") {
		samples := append(randomSamples(t, names), ballast(t, names))
		a.FoldBatch(samples)
		b.FoldBatch(samples)
		if rapid.Bool().Draw(t, "prune") {
			b.Prune(0)
		}
	}
	return newProfile("full", a.Snapshot()), newProfile("pruned", b.Snapshot())
}

// ballast draws a heavy sample that is deep enough to leave little room, or none,
// for others: a map is not pruned to less than about a thousand nodes.
func ballast(t *rapid.T, names *ccmap.Names) ccmap.Sample {
	frames := make([]ccmap.Frame, rapid.IntRange(1, 3000).Draw(t, "ballast"))
	z := names.Intern(ccmap.Method{Name: "Z"})
	for i := range frames {
		frames[i].Method = z
	}
	return ccmap.Sample{Frames: frames, Weight: 1000 * sampleNS, Fresh: int32(len(frames))}
}

// TestPrunedPairIsPruned: without that, the tests here would say nothing.
func TestPrunedPairIsPruned(t *testing.T) {
	t.Parallel()
	pruned := 0
	rapid.Check(t, func(t *rapid.T) {
		if _, p := prunedPair(t); p.isPruned() {
			pruned++
		}
	})
	if pruned == 0 {
		t.Error("no pair was pruned")
	}
}

// TestTopOfPrunedIsExact: all methods are listed with the same figures, and
// [pruned] beside them, with nothing of its own.
func TestTopOfPrunedIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		want := topRows(full, nil, sortName)
		got := make(map[string]methodRow)
		for _, r := range topRows(pruned, nil, sortName) {
			got[r.method.Name] = r
		}
		hidden, isPruned := got[ccmap.PrunedName]
		if isPruned && !hidden.flat.IsZero() || hidden.cum != pruned.PrunedTotal() {
			t.Errorf("[pruned] is %+v, want nothing of its own and %+v", hidden, pruned.PrunedTotal())
		}
		delete(got, ccmap.PrunedName)
		if len(got) != len(want) {
			t.Errorf("%d methods, want %d", len(got), len(want))
		}
		for _, w := range want {
			if g := got[w.method.Name]; g != w {
				t.Errorf("%s: %+v, want %+v", w.method.Name, g, w)
			}
		}
	})
}

// TestQueryOfPruned: paths of one and two methods are exact, longer ones lower
// bounds; and their neighbours add up, with what is not known of them.
func TestQueryOfPruned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		path := randomPath(t)
		want, got := mustQuery(t, full, path), mustQuery(t, pruned, path)
		if got.isLowerBound() {
			checkAtMost(t, "path", got.total, want.total)
		} else if got.total != want.total {
			t.Errorf("%s: %+v, want %+v", got, got.total, want.total)
		}
		if got.isDistinctLowerBound() {
			checkAtMost(t, "each sample once", got.distinct, want.distinct)
		} else if got.distinct != want.distinct {
			t.Errorf("%s, each sample once: %+v, want %+v", got, got.distinct, want.distinct)
		}
		if len(path) == 1 && got.self.Samples != want.self.Samples {
			t.Errorf("%s itself: %+v, want %+v", got, got.self, want.self)
		}
		if sum := got.callers.sum(); sum.Samples != got.total.Samples || sum.Time != got.total.Time {
			t.Errorf("callers of %s have %+v of %+v", got, sum, got.total)
		}
		if sum := got.callees.sum().Add(got.self); sum.Samples != got.total.Samples || sum.Time != got.total.Time {
			t.Errorf("callees of %s and it itself have %+v of %+v", got, sum, got.total)
		}
	})
}

func checkAtMost(t *rapid.T, what string, got, want ccmap.Counters) {
	if got.Samples > want.Samples || got.Time > want.Time || got.Activations > want.Activations {
		t.Errorf("%s: %+v is no lower bound of %+v", what, got, want)
	}
}

func (ns neighbours) sum() ccmap.Counters {
	var sum ccmap.Counters
	for _, c := range ns {
		sum = sum.Add(c)
	}
	return sum
}

// TestContextsOfPruned: contexts are lower bounds, and together with what was
// pruned they are all of the method.
func TestContextsOfPruned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		set := selectNames(full.Names(), func(name string) bool { return name == "A" })
		want, got := contextsOf(full, set, 2, sortTime), contextsOf(pruned, set, 2, sortTime)
		if got.total.Samples != want.total.Samples || got.total.Time != want.total.Time {
			t.Errorf("all contexts: %+v, want %+v", got.total, want.total)
		}
		if !want.pruned.IsZero() {
			t.Errorf("of a profile that was not pruned: %+v", want.pruned)
		}
		whole := make(map[string]ccmap.Counters)
		for _, r := range want.rows {
			whole[chainKey(r.method, r.callers)] = r.total
		}
		for _, r := range got.rows {
			checkAtMost(t, "context", r.total, whole[chainKey(r.method, r.callers)])
		}
	})
}

// TestSitesOfPrunedAreExact: call sites and their callees have the same figures, but for
// methods that recurse: how often a removed context held the call is not known, so their
// figures are upper bounds.
func TestSitesOfPrunedAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		want, got := siteRows(full, nil, sortName), siteRows(pruned, nil, sortName)
		for i := range min(len(want), len(got)) {
			if recurses(full, want[i].call.Method) {
				checkAtMost(t, "call site that recurses", want[i].total, got[i].total)
				want[i].total, want[i].callees = got[i].total, got[i].callees
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(siteRow{}, calleeRow{})); diff != "" {
			t.Errorf("call sites (-full +pruned):\n%s", diff)
		}
	})
}

// TestKeepsTotals: what was pruned is known by method and edge, until it has been
// through a format that does not keep it.
func TestKeepsTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		if full.isPruned() || full.lostTotals() != "" || pruned.lostTotals() != "" {
			t.Errorf("full: pruned %t, %q; pruned: %q", full.isPruned(), full.lostTotals(), pruned.lostTotals())
		}
		format := rapid.SampledFrom(formats).Draw(t, "format")
		var file bytes.Buffer
		if err := export.Write(&file, format, pruned.Snapshot); err != nil {
			t.Fatal(err)
		}
		m, _, err := export.Read(&file, export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kept := format == export.XML || format == export.JSON || pruned.PrunedTotal().IsZero()
		if got := newProfile("copy", m.Snapshot()); (got.lostTotals() == "") != kept {
			t.Errorf("%v: %q of %v", format, got.lostTotals(), pruned.PrunedTotal())
		}
	})
}

// recurses reports whether some stack has a method more than once.
func recurses(p *profile, id ccmap.MethodID) bool {
	m, _ := p.Method(id)
	return m.Total().Samples != m.Cumulative().Samples
}
