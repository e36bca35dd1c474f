package symbols

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/sampler/wasm/debuginfo"
)

// What a module's DWARF may cost is bounded by its size: then nothing more is known.
func TestBudget(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	for table.lines.budget.Keep(1 << 10) {
	}
	for i := range table.Len() {
		if f := table.Function(i); f.File != "" || table.Line(i, 1) != 0 || f.Name == "" {
			t.Errorf("%+v is known without reading", f)
		}
	}
}

// Whoever asks often takes nothing from the budget for others.
func TestAskingAgainIsFree(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	first := describe(table)
	left := *table.lines.budget
	if again := describe(table); again != first || *table.lines.budget != left {
		t.Errorf("%+v is left, then %+v\n%s", left, *table.lines.budget, gocmp.Diff(first, again))
	}
}

// Code that the linker has dropped has no rows, and no lines have none.
func TestRowsOfDroppedCode(t *testing.T) {
	t.Parallel()
	c := rowCollector{l: &lineInfo{code: 100, budget: debuginfo.NewBudget(0)}}
	c.begin()
	for _, r := range []debuginfo.Row{
		{Address: 0, Line: 1}, {Address: 9, End: true}, // at 0
		{Address: 10, Line: 2, File: 3}, {Address: 12, Line: 0}, {Address: 14, Line: 4}, {Address: 16, End: true},
		{Address: 20, Line: 5}, {Address: 20, End: true}, // empty
		{Address: 90, Line: 6}, {Address: 101, End: true}, // beyond the code
		{Address: 30, Line: 7}, // without an end
	} {
		c.add(&r)
	}
	want := rows{{address: 10, line: 2, file: 3}, {address: 14, line: 4}, {address: 16}}
	if diff := gocmp.Diff(want, c.rows[:c.sequence], gocmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
