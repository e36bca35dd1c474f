package main

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/export"
)

// Every figure has its reach, and one that was not measured misses none.
func TestMisses(t *testing.T) {
	t.Parallel()
	good := compare.Overlap{Percent: 90, Expected: 91.9}
	short := compare.Overlap{Percent: 70, Expected: 90, Unexplained: 15}
	for _, c := range []struct {
		row           row
		misses, gross int
	}{
		{emptyRow("none", ""), 0, 0},
		{row{truncated: 2, unknown: 1, unaccounted: 2}, 0, 0},
		{row{truncated: 2.1, unknown: 1.1, unaccounted: -2.1}, 3, 0},
		{row{truncated: 10.1, unknown: 10.1, unaccounted: -25.1}, 3, 3},
		{row{agreement: &compare.Result{Methods: good, Edges: good, Contexts: good}}, 0, 0},
		{row{agreement: &compare.Result{Methods: good, Edges: short, Contexts: short}}, 2, 2},
		{row{wrong: "no refusal"}, 1, 1},
	} {
		if got := c.row.misses(); len(got) != c.misses {
			t.Errorf("%+v misses %v, want %d", c.row, got, c.misses)
		}
		if got := c.row.missesGrossly(); len(got) != c.gross {
			t.Errorf("%+v misses %v by far, want %d", c.row, got, c.gross)
		}
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	r := emptyRow("name", "a server")
	r.truncated, r.remarks = 2.5, []string{"perf says so"}
	want := "a server |  | 0 | 2.5 | – | – | – | – | – | – | – | all but truncated; perf says so"
	if diff := cmp.Diff(want, strings.Join(r.cells(), " | ")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(r.cells()) != len(rowHead) {
		t.Errorf("%d cells under %d heads", len(r.cells()), len(rowHead))
	}
}

// A stack with a frame of a kind counts once, wherever the frame is.
func TestShareOf(t *testing.T) {
	t.Parallel()
	s := folded(t, "[truncated];b;c 30\na;[unknown] 10\n[unknown];[unknown] 5\na;b 55\n")
	if got := shareOf(s, isTruncated); math.Abs(got-30) > 1e-9 {
		t.Errorf("%v %% are truncated, want 30", got)
	}
	if got := shareOf(s, isUnknown); math.Abs(got-15) > 1e-9 {
		t.Errorf("%v %% are unknown, want 15", got)
	}
	if got := shareOf(s, isUnnamed); got != 0 {
		t.Errorf("%v %% are of a file without symbols, want none", got)
	}
}

// Code that is in a file without a symbol is no unknown code.
func TestKindsOfFrames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ccmap.Method
		truncated, unknown, unnamed bool
	}{
		{ccmap.Method{Name: ccmap.TruncatedName}, true, false, false},
		{ccmap.Method{Name: ccmap.UnknownName}, false, true, false},
		{ccmap.Method{Name: ccmap.UnknownName, Signature: "/usr/lib/libsqlite3.so.0"}, false, false, true},
		{ccmap.Method{Name: "main.main"}, false, false, false},
	} {
		if isTruncated(c.Method) != c.truncated || isUnknown(c.Method) != c.unknown || isUnnamed(c.Method) != c.unnamed {
			t.Errorf("%+v is taken for something else", c)
		}
	}
}

// A row that misses says where stacks are cut and what has no name.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := folded(t, "[truncated];runtime.morestack;b 20\n[truncated];c 10\na;[unknown];[unknown] 30\na 40\n")
	r := row{truncated: 30, unknown: 30, unaccounted: 3}
	r.explain(s, window{})
	want := []string{"cut above `runtime.morestack` (20.0 %), `c` (10.0 %)", "unknown code called by `a` (30.0 %)",
		"ccmapd does not say what is unaccounted for"}
	if diff := cmp.Diff(want, r.remarks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Frames that are no Go functions count for their callers, those of Go do not.
func TestAbsorbed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"[kernel]": true, "[unknown] libc.so.6": true, "sqlite3_step": true, "runtime._ExternalCode": true, "runtime.asyncPreempt": true,
		"runtime.mallocgc": false, "main.main": false, "slices.Sort[...]": false,
	} {
		if got := absorbed(ccmap.Method{Name: name}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// folded reads a profile in folded stacks.
func folded(t *testing.T, stacks string) *ccmap.Snapshot {
	t.Helper()
	m, _, err := export.Read(strings.NewReader(stacks), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}
