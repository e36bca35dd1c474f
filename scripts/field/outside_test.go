package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// TestOutsiders: each program that the campaign wants exists, and has a way to be watched.
func TestOutsiders(t *testing.T) {
	t.Parallel()
	for i, o := range outsiders() {
		if o.watch == nil || o.about == "" {
			t.Errorf("program %d is not there: %+v", i, o)
		}
	}
}

// TestOutsideMisses: few samples count by equal CPU time, one heavy sample counts in large profiles alone.
func TestOutsideMisses(t *testing.T) {
	t.Parallel()
	of := func(change func(*outsideRow)) outsideRow {
		r := outsideRow{engine: "bpf", samples: 1000, peer: 1000, rate: 95, peersRate: 100, heaviest: 1}
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		row  outsideRow
		want []string
	}{
		"all":      {of(func(*outsideRow) {}), nil},
		"few":      {of(func(r *outsideRow) { r.rate = 89 }), []string{"samples"}},
		"by perf":  {of(func(r *outsideRow) { r.rate, r.engine = 76, "perf" }), nil},
		"heavy":    {of(func(r *outsideRow) { r.heaviest = 8.6 }), []string{"heaviest sample"}},
		"young":    {of(func(r *outsideRow) { r.heaviest, r.samples = 8.6, 900 }), nil},
		"contexts": {of(func(r *outsideRow) { r.contexts = compare.Overlap{Percent: 50, Unexplained: 20} }), []string{"contexts"}},
	} {
		if got := test.row.misses(); !slices.Equal(got, test.want) {
			t.Errorf("%s: misses %v, want %v", name, got, test.want)
		}
	}
}

// TestOutsideReport: rows of programs that are not measured again stay, and the others are replaced.
func TestOutsideReport(t *testing.T) {
	t.Parallel()
	blank := func(name string) []string {
		row := slices.Repeat([]string{"old"}, len(outsideHead))
		row[0] = name
		return row
	}
	text := outsideReport([]outsideRow{{about: "same", engine: "bpf", peersRate: 1}}, [][]string{blank("other"), blank("same")}, time.Second, time.Now())
	if !strings.Contains(text, "| other | old |") || strings.Contains(text, "| same | old |") || !strings.Contains(text, "| same | 0 |") {
		t.Errorf("report:\n%s", text)
	}
}
