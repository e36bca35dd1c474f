package ccmap_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestUnitIsCPUTimeUnlessSaid(t *testing.T) {
	t.Parallel()
	heap := ccmap.NewUnit("inuse_space", "bytes")
	for unit, want := range map[ccmap.Unit]string{
		{}:                                  "cpu/nanoseconds",
		ccmap.CPUTime:                       "cpu/nanoseconds",
		ccmap.NewUnit("", ""):               "cpu/nanoseconds",
		ccmap.NewUnit("cpu", "nanoseconds"): "cpu/nanoseconds",
		ccmap.NewUnit("cpu", "count"):       "cpu/count",
		ccmap.Instructions:                  "instructions/count",
		heap:                                "inuse_space/bytes",
	} {
		if unit.String() != want || unit.Kind()+"/"+unit.Base() != want {
			t.Errorf("%v, kind %q, base %q, want %s", unit, unit.Kind(), unit.Base(), want)
		}
	}
	if ccmap.NewUnit("cpu", "nanoseconds") != ccmap.CPUTime || heap == ccmap.CPUTime || !heap.Equal(ccmap.NewUnit("inuse_space", "bytes")) {
		t.Error("units are not equal where they name the same")
	}
}

// TestUnlikeMapsDoNotMerge: the error names both, and the sum is as before. What is
// empty has no unit.
func TestUnlikeMapsDoNotMerge(t *testing.T) {
	t.Parallel()
	of := func(u ccmap.Unit, weight int64) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		m.Meta().Unit = u
		if weight > 0 {
			m.Fold(&ccmap.Sample{Weight: weight, Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: "f"})}}})
		}
		return m.Snapshot()
	}
	sum := ccmap.New(ccmap.Options{})
	for _, s := range []*ccmap.Snapshot{of(ccmap.CPUTime, 0), of(ccmap.Instructions, 1), of(ccmap.CPUTime, 0), of(ccmap.Instructions, 1)} {
		if err := sum.Merge(s); err != nil {
			t.Fatal(err)
		}
	}
	err := sum.Merge(of(ccmap.CPUTime, 1))
	if !errors.Is(err, ccmap.ErrUnlike) || !strings.Contains(err.Error(), `"instructions/count" and "cpu/nanoseconds"`) {
		t.Errorf("merge of CPU time into instructions: %v", err)
	}
	if got := sum.Snapshot(); got.Total().Time != 2 || got.Meta().Unit != ccmap.Instructions {
		t.Errorf("total %v of %v", got.Total(), got.Meta().Unit)
	}
}

// Samples that repeat count for less: their effective size is smaller.
func TestIndependence(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		known, repeated uint64
		want            float64
	}{
		{0, 0, 1}, {29, 29, 1}, {1000, 0, 1}, {1000, 500, 1. / 3}, {1000, 900, 0.1 / 1.9},
	} {
		if got := (ccmap.Meta{Known: test.known, Repeated: test.repeated}).Independence(); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%d repeated of %d: %v, want %v", test.repeated, test.known, got, test.want)
		}
	}
	if got := (ccmap.Meta{Known: 1000, Repeated: 1000}).Independence(); !(got > 0) {
		t.Errorf("all repeated: %v", got)
	}
}
