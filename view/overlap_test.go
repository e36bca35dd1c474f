package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// profileOf has one method, and samples at one interval.
func profileOf(path string, samples int64, interval time.Duration) *Profile {
	m := ccmap.New(ccmap.Options{})
	leaf := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"}))
	m.Add(leaf, ccmap.Counters{Samples: samples, Time: samples * int64(interval), Activations: 1})
	m.Meta().Interval = []ccmap.IntervalChange{{Interval: interval}}
	p := New(path, m.Snapshot())
	p.Hints = map[Hint]string{HintIntervals: "take the time"}
	return p
}

func TestNotes(t *testing.T) {
	t.Parallel()
	many := profileOf("many", 1000, 10*time.Millisecond)
	few := profileOf("few", 999, 10*time.Millisecond)
	fast := profileOf("fast", 5000, time.Millisecond)
	fewNote := "few has only 999 samples: under 1,000, most differences are noise."
	for _, test := range []struct {
		name     string
		profiles []*Profile
		by       compare.Weight
		want     []string
	}{
		{"enough", []*Profile{many, profileOf("more", 2000, 10*time.Millisecond)}, compare.ByTime, []string{}},
		{"few", []*Profile{many, few}, compare.ByTime, []string{fewNote}},
		{"few, itself", []*Profile{few, few}, compare.ByTime, []string{fewNote, "few is compared with itself."}},
		{"intervals, by time", []*Profile{many, fast}, compare.ByTime, []string{}},
		{"intervals, by samples", []*Profile{many, fast}, compare.BySamples,
			[]string{"the sampling intervals differ: take the time."}},
		{"activations, exact", []*Profile{many, fast}, compare.ByActivations, []string{}},
	} {
		if diff := cmp.Diff(test.want, append(fewSamples(test.profiles), caveats(test.profiles, test.by)...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
