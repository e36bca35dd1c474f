package view

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// prunedPair returns two profiles of the same samples. The second was pruned of all
// contexts now and then.
func prunedPair(t *rapid.T) (full, pruned *Profile) {
	a, b := profiletest.PrunedPair(t)
	return New("full", a), New("pruned", b)
}

// TestTopOfPrunedIsExact: all methods are listed with the same figures, and
// [pruned] beside them, with nothing of its own.
func TestTopOfPrunedIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		want := mustTop(t, full)
		got := make(map[string]MethodRow)
		for _, r := range mustTop(t, pruned) {
			got[r.Method.Name] = r
		}
		hidden, isPruned := got[ccmap.PrunedName]
		if isPruned && !hidden.Flat.IsZero() || hidden.Cum != pruned.PrunedTotal() {
			t.Errorf("[pruned] is %+v, want nothing of its own and %+v", hidden, pruned.PrunedTotal())
		}
		delete(got, ccmap.PrunedName)
		if len(got) != len(want) {
			t.Errorf("%d methods, want %d", len(got), len(want))
		}
		for _, w := range want {
			if g := got[w.Method.Name]; g != w {
				t.Errorf("%s: %+v, want %+v", w.Method.Name, g, w)
			}
		}
	})
}

func mustTop(t *rapid.T, p *Profile) []MethodRow {
	top, err := NewTop(p, List{Order: ByName})
	if err != nil {
		t.Fatal(err)
	}
	return top.Rows
}

func checkAtMost(t *rapid.T, what string, got, want ccmap.Counters) {
	if got.Samples > want.Samples || got.Time > want.Time || got.Activations > want.Activations {
		t.Errorf("%s: %+v is not a lower bound of %+v", what, got, want)
	}
}

// TestSitesOfPrunedAreExact: call sites and their callees have the same figures, but for
// methods that recurse: how often a removed context held the call is not known, so their
// figures are upper bounds.
func TestSitesOfPrunedAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		want, got := siteRows(full, nil, ByName), siteRows(pruned, nil, ByName)
		for i := range min(len(want), len(got)) {
			if recurses(full, want[i].Call.Method) {
				checkAtMost(t, "call site that recurses", want[i].Total, got[i].Total)
				want[i].Total, want[i].Callees = got[i].Total, got[i].Callees
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(CalleeRow{})); diff != "" {
			t.Errorf("call sites (-full +pruned):\n%s", diff)
		}
	})
}

// TestKeepsTotals: what was pruned is known by method and edge, until it has been
// through a format that does not keep it.
func TestKeepsTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full, pruned := prunedPair(t)
		if full.IsPruned() || full.lostTotals() != "" || pruned.lostTotals() != "" {
			t.Errorf("full: pruned %t, %q; pruned: %q", full.IsPruned(), full.lostTotals(), pruned.lostTotals())
		}
		format := rapid.SampledFrom([]export.Format{export.Pprof, export.XML, export.JSON, export.Folded}).Draw(t, "format")
		var file bytes.Buffer
		if err := export.Write(&file, format, pruned.Snapshot); err != nil {
			t.Fatal(err)
		}
		m, _, err := export.Read(&file, export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kept := format == export.XML || format == export.JSON || pruned.PrunedTotal().IsZero()
		if got := New("copy", m.Snapshot()); (got.lostTotals() == "") != kept {
			t.Errorf("%v: %q of %v", format, got.lostTotals(), pruned.PrunedTotal())
		}
	})
}

// recurses reports whether some stack has a method more than once.
func recurses(p *Profile, id ccmap.MethodID) bool {
	m, _ := p.Method(id)
	return m.Total().Samples != m.Cumulative().Samples
}
