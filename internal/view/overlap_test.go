package view

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/terminal"
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

// TestComparisonsJSON: the keys of comparisons in JSON, and their order, are stable.
func TestComparisonsJSON(t *testing.T) {
	t.Parallel()
	profile := func(name string, samples int64) *Profile { // of a, which calls b in the last one
		m := ccmap.New(ccmap.Options{})
		a := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "a"}))
		m.Add(a, ccmap.Counters{Samples: samples - 1, Time: 10 * (samples - 1)})
		m.Add(m.Child(a, 1, m.Names().Intern(ccmap.Method{Name: "b", Signature: "(int)", File: "b.go", StartLine: 7})), ccmap.Counters{Samples: 1, Time: 10})
		m.Meta().Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		m.Meta().Duration = time.Second
		m.Meta().Interval = []ccmap.IntervalChange{{Interval: 10 * time.Millisecond}, {Interval: 20 * time.Millisecond}}
		return New(name, m.Snapshot())
	}
	first, second := profile("first", 1), profile("second", 1)
	overlap, err := NewOverlap([]*Profile{first, second}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	diff, err := NewDiff(first, profile("second", 2), DiffLists{Methods: true}, compare.DiffOptions{All: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for file, view := range map[string]View{"overlap.json": overlap, "diff.json": diff} {
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := terminal.WriteJSON(&got, view.JSON()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestChangesOfSystemCalls: a change of the time in a system call says which call it is.
func TestChangesOfSystemCalls(t *testing.T) {
	t.Parallel()
	profile := func(name, call string) *Profile {
		m := ccmap.New(ccmap.Options{})
		main := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main"}))
		kernel := m.Names().Intern(ccmap.Method{Name: ccmap.KernelName, Signature: call})
		m.Add(m.Child(main, 1, kernel), ccmap.Counters{Samples: 1000, Time: 1000})
		return New(name, m.Snapshot())
	}
	diff, err := NewDiff(profile("a", "read"), profile("b", "write"), DiffLists{Methods: true, Edges: true}, compare.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := diff.Text(&text, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[kernel] read", "[kernel] write"} {
		if strings.Count(text.String(), want) != 2 {
			t.Errorf("%s is not among the methods and the edges:\n%s", want, &text)
		}
	}
}
