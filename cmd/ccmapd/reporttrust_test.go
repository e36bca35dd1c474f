package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/view"
)

// TestMoreSamples: half of what is missing takes four times the samples.
func TestMoreSamples(t *testing.T) {
	t.Parallel()
	goal := manager.Goal{Of: manager.Edges, Percent: 95}
	for settled, want := range map[ccmap.Settled]string{
		{Edges: 90, Samples: 3000}:   ": that takes some 12,000 samples",
		{Edges: 91, Samples: 3044}:   ": that takes some 9,900 samples",
		{Edges: 94.9, Samples: 7}:    ": that takes some 7 samples",
		{Edges: 95, Samples: 30_000}: "", // not reached because of drift
		{Samples: 30}:                "",
	} {
		if got := moreSamples(goal, settled); got != want {
			t.Errorf("%+v: %q, want %q", settled, got, want)
		}
	}
}

// TestReportPruning: a format that loses totals is not recommended silently.
func TestReportPruning(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	f := m.Names().Intern(ccmap.Method{Name: "f"})
	deep := slices.Repeat([]ccmap.Frame{{Method: f}}, 5000)
	m.Fold(&ccmap.Sample{Frames: deep, Weight: 1e6, Fresh: ccmap.FreshUnknown})
	report := func(file string) string {
		var out bytes.Buffer
		reportPruning(&out, view.New(file, m.Snapshot()), []string{file})
		return out.String()
	}
	if got := report("a.pb.gz"); got != "" {
		t.Errorf("of a profile that was not pruned: %q", got)
	}
	m.Prune(0)
	const pruned, lost = "Contexts were pruned to --max-memory", "Only XML and JSON keep"
	if got := report("a.pb.gz"); !strings.Contains(got, pruned) || !strings.Contains(got, lost) {
		t.Errorf("pprof: %q", got)
	}
	if got := report("a.xml.zst"); !strings.Contains(got, pruned) || strings.Contains(got, lost) {
		t.Errorf("XML: %q", got)
	}
}

// TestPrintNext: pprof is recommended for what it reads.
func TestPrintNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files []string
		want  string
	}{
		{[]string{"a.json"}, ""},
		{[]string{"a.json", "b c.pb.gz"}, "go tool pprof -http=: 'b c.pb.gz' "},
	} {
		var out bytes.Buffer
		printNext(&out, test.files)
		if got := out.String(); !strings.Contains(got, test.want) || strings.Contains(got, "pprof") != (test.want != "") {
			t.Errorf("%v: %q", test.files, got)
		}
	}
}
