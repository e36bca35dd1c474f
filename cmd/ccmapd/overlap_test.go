package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// profileOf has one method, and samples at one interval.
func profileOf(path string, samples int64, interval time.Duration) *profile {
	m := ccmap.New(ccmap.Options{})
	leaf := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"}))
	m.Add(leaf, ccmap.Counters{Samples: samples, Time: samples * int64(interval), Activations: 1})
	m.Meta().Interval = []ccmap.IntervalChange{{Interval: interval}}
	return newProfile(path, m.Snapshot())
}

func TestNotes(t *testing.T) {
	t.Parallel()
	many := profileOf("many", 1000, 10*time.Millisecond)
	few := profileOf("few", 999, 10*time.Millisecond)
	fast := profileOf("fast", 5000, time.Millisecond)
	fewNote := "few has only 999 samples: under 1,000, most differences are noise."
	for _, test := range []struct {
		name     string
		profiles []*profile
		by       string
		want     []string
	}{
		{"enough", []*profile{many, profileOf("more", 2000, 10*time.Millisecond)}, "time", []string{}},
		{"few", []*profile{many, few}, "time", []string{fewNote}},
		{"few, itself", []*profile{few, few}, "time", []string{fewNote, "few is compared with itself."}},
		{"intervals, by time", []*profile{many, fast}, "time", []string{}},
		{"intervals, by samples", []*profile{many, fast}, "samples",
			[]string{"the sampling intervals differ: only --by time compares such profiles."}},
		{"activations, exact", []*profile{many, fast}, "activations", []string{}},
	} {
		if diff := cmp.Diff(test.want, notes(test.profiles, test.by)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
