package compare_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"pgregory.net/rapid"
)

// odd are snapshots that no profiler takes, but a decoder may hand out.
func odd() map[string]*ccmap.Snapshot {
	one := func(frames []frame, c ccmap.Counters) *ccmap.Snapshot {
		return snapshotOf([]stack{{frames: frames, counts: c}})
	}
	f, deep := []frame{{"f", ccmap.NoOffset}}, []frame{{"f", 1}, {"f", 1}, {"g", 2}, {"f", 3}}
	many := []stack{
		{frames: deep, counts: ccmap.Counters{Samples: math.MaxInt64 - 1, Time: math.MaxInt64 - 1, Activations: math.MaxInt64 - 1}},
		{frames: f, counts: ccmap.Counters{Samples: 1, Time: 1, Activations: 1}},
	}
	nothing := func(stack) int { return 0 }
	return map[string]*ccmap.Snapshot{
		"empty":             ccmap.New(ccmap.Options{}).Snapshot(),
		"one node":          one(f, ccmap.Counters{Samples: 1, Time: 1, Activations: 1}),
		"only activations":  one(deep, ccmap.Counters{Activations: 500}),
		"only samples":      one(deep, ccmap.Counters{Samples: 500}),
		"only time":         one(deep, ccmap.Counters{Time: 500}),
		"ordinary":          one(deep, ccmap.Counters{Samples: 500, Time: 5e9, Activations: 20}),
		"saturated":         snapshotOf(many),
		"saturated in one":  one(f, ccmap.Counters{Samples: math.MaxInt64, Time: math.MaxInt64, Activations: math.MaxInt64}),
		"pruned everything": prunedOf([]stack{{deep, ccmap.Counters{Samples: 500, Time: 5e9, Activations: 20}}}, nothing),
		"pruned, saturated": prunedOf(many, nothing),
	}
}

func TestOddSnapshots(t *testing.T) {
	t.Parallel()
	for nameA, a := range odd() {
		for nameB, b := range odd() {
			for _, w := range weights {
				t.Run(nameA+"/"+nameB+"/"+w.String(), func(t *testing.T) { checkSane(t, a, b, w) })
			}
		}
	}
}

// Whatever is in profiles, and in what is known of them, all figures are numbers.
func TestRandomSnapshots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *ccmap.Snapshot {
			limit := rapid.IntRange(0, 9).Draw(t, "kept")
			m := ccmap.New(ccmap.Options{})
			err := m.Merge(prunedOf(drawStacks(label).Draw(t, label), func(s stack) int { return min(limit, len(s.frames)) }))
			if err != nil {
				t.Fatal(err)
			}
			*m.Meta() = drawMeta(t)
			return m.Snapshot()
		}
		checkSane(t, draw("a"), draw("b"), rapid.SampledFrom(weights).Draw(t, "weight"))
	})
}

func drawMeta(t *rapid.T) ccmap.Meta {
	count := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64())
	meta := ccmap.Meta{
		Known: uint64(count.Draw(t, "known")), Repeated: uint64(count.Draw(t, "repeated")),
		Duration: time.Duration(count.Draw(t, "duration")),
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		meta.Interval = append(meta.Interval, ccmap.IntervalChange{
			At: time.Duration(count.Draw(t, "at")), Interval: time.Duration(count.Draw(t, "interval")),
		})
	}
	return meta
}

// checkSane compares both ways, where there is something to compare.
func checkSane(t rapid.TB, a, b *ccmap.Snapshot, w compare.Weight) {
	t.Helper()
	r, err := compare.Compare(a, b, compare.Options{Weight: w})
	if err != nil && !errors.Is(err, compare.ErrEmpty) {
		t.Error(err)
	}
	checkFigures(t, r)
	back, _ := compare.Compare(b, a, compare.Options{Weight: w})
	if r.Contexts.Percent != back.Contexts.Percent || r.Contexts.Expected != back.Contexts.Expected || r.Verdict != back.Verdict {
		t.Errorf("%+v, the other way round %+v", r, back)
	}
	if w == compare.ByActivations {
		return
	}
	d, err := compare.Differences(a, b, compare.DiffOptions{Weight: w, All: true})
	if err != nil && !errors.Is(err, compare.ErrEmpty) {
		t.Error(err)
	}
	checkFigures(t, d)
}

// checkFigures checks that all figures can be encoded, and that none but
// differences is negative.
func checkFigures(t rapid.TB, v any) {
	t.Helper()
	if _, err := json.Marshal(v); err != nil {
		t.Errorf("%v: %+v", err, v)
	}
	checkNotNegative(t, "", reflect.ValueOf(v))
}

func checkNotNegative(t rapid.TB, name string, v reflect.Value) {
	t.Helper()
	signed := map[string]bool{"Pearson": true, "Spearman": true, "Points": true}
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			checkNotNegative(t, v.Type().Field(i).Name, v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			checkNotNegative(t, name, v.Index(i))
		}
	case v.CanFloat() && !signed[name] && v.Float() < 0, v.CanInt() && v.Int() < 0 && v.Type() != reflect.TypeFor[time.Duration]():
		t.Errorf("%s is %v", name, v)
	}
}
