package manager

import (
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestScaledThreshold: a method whose threshold is scaled is hot early, and others are not; what is no scale is 1.
func TestScaledThreshold(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	early, late := names.Intern(ccmap.Method{Name: "early"}), names.Intern(ccmap.Method{Name: "late"})
	m := ccmap.New(ccmap.Options{Names: names})
	var hot []ccmap.MethodID
	h := newHotness(Config{
		OnHot: func(e Event) { hot = append(hot, e.Method) },
		Hot: Thresholds{Method: Threshold{Time: time.Second}, Scale: func(m ccmap.MethodID) float64 {
			if m == early {
				return 0.1
			}
			return 7
		}},
	})
	if h.next > int64(time.Second)/100/lateStep {
		t.Errorf("the first look is at %v", time.Duration(h.next))
	}
	for i, want := range [][]ccmap.MethodID{nil, {early}, {early, late}} {
		for _, method := range []ccmap.MethodID{early, late} {
			s := ccmap.Sample{Frames: []ccmap.Frame{{Method: method}}, Thread: 1, Fresh: ccmap.FreshUnknown, Weight: []int64{9e7, 2e7, 9e8}[i]}
			m.Fold(&s)
		}
		if h.look(m.Snapshot()); !slices.Equal(hot, want) {
			t.Errorf("hot are %v, want %v", hot, want)
		}
	}
}
