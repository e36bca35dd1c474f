package view

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// allReceivers lists all call sites of a profile.
func allReceivers(p *Profile, callers query.Methods) *Receivers {
	v, _ := NewReceivers(p, ReceiversList{List: List{Methods: callers}, All: true, Depth: 3}) // has no order to fail by
	return v
}

// TestReceiversAndSitesAgree: without caught calls the verdicts are the hints of
// 'sites'.
func TestReceiversAndSitesAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, p := prunedPair(t)
		hints := make(map[ccmap.Frame]SiteRow)
		for _, row := range siteRows(p, nil, ByTime) {
			id, _ := p.Names().Lookup(row.Caller.Name, row.Caller.Signature)
			hints[ccmap.Frame{Method: id, Offset: row.Call.Offset}] = row
		}
		list := allReceivers(p, nil)
		if len(list.Rows) != len(hints) {
			t.Errorf("%d sites, want %d", len(list.Rows), len(hints))
		}
		for _, row := range list.Rows {
			want := hints[ccmap.Frame{Method: row.Caller, Offset: row.Offset}]
			if row.Decisive.Verdict != want.Verdict || len(row.Receivers()) != want.Targets {
				t.Errorf("%s+%d: %v of %d, in 'sites' %v of %d", row.caller.Name, row.Offset,
					row.Decisive.Verdict, len(row.Receivers()), want.Verdict, want.Targets)
			}
		}
	})
}

// TestReceiversOfCallers: METHOD restricts the list, and nothing else.
func TestReceiversOfCallers(t *testing.T) {
	t.Parallel()
	p := New("drawing", profiletest.Drawing(500).Snapshot())
	all := allReceivers(p, nil)
	draw := allReceivers(p, query.Select(p.Names(), func(name string) bool { return name == "main.draw" }))
	if len(all.Rows) != 3 || len(draw.Rows) != 1 {
		t.Fatalf("%d sites in all, %d of draw", len(all.Rows), len(draw.Rows))
	}
	at := slices.IndexFunc(all.Rows, func(r ReceiversRow) bool { return r.caller.Name == "main.draw" })
	if diff := cmp.Diff(siteText(t, all, all.Rows[at]), siteText(t, draw, draw.Rows[0])); diff != "" {
		t.Errorf("draw (-in all +alone):\n%s", diff)
	}
}

// TestWhatTells: of few caught calls the callers are not known; where the samples
// agree with them, they tell.
func TestWhatTells(t *testing.T) {
	t.Parallel()
	for calls, want := range map[int64]struct {
		byCalls bool
		text    string
	}{
		0:    {false, "2 bimorphic, monomorphic by caller"},
		60:   {false, "2 bimorphic, monomorphic by caller"},
		100:  {false, "2 bimorphic, monomorphic by caller"},
		5000: {true, "2 bimorphic, monomorphic by caller"},
	} {
		p := New("drawing", profiletest.Drawing(calls).Snapshot())
		row := allReceivers(p, nil).Rows[0]
		if row.ByCalls != want.byCalls || row.verdict() != want.text {
			t.Errorf("of %d calls from each caller: %q, by calls: %t", calls, row.verdict(), row.ByCalls)
		}
	}
}

// TestReceiversInAllFormats: every format but folded stacks keeps what is said.
func TestReceiversInAllFormats(t *testing.T) {
	t.Parallel()
	s := profiletest.Drawing(500).Snapshot()
	want := receiversIn(t, New("drawing", s))
	for _, format := range []export.Format{export.Pprof, export.XML, export.JSON} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			var file bytes.Buffer
			if err := export.Write(&file, format, s); err != nil {
				t.Fatal(err)
			}
			read, _, err := export.Read(&file, export.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, receiversIn(t, New("drawing", read.Snapshot()))); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
		})
	}
}

// receiversIn returns what is said of all sites.
func receiversIn(t *testing.T, p *Profile) string {
	t.Helper()
	list, text := allReceivers(p, nil), ""
	for _, row := range list.Rows {
		text += siteText(t, list, row)
	}
	return text
}

func siteText(t *testing.T, list *Receivers, row ReceiversRow) string {
	t.Helper()
	var text bytes.Buffer
	if err := terminal.WriteJSON(&text, receiversSiteColumns.json(list.Profile, row)); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestReceiversNotes says what the figures are of.
func TestReceiversNotes(t *testing.T) {
	t.Parallel()
	whole := New("drawing", profiletest.Drawing(500).Snapshot())
	recent, err := whole.RecentOnly()
	if err != nil {
		t.Fatal(err)
	}
	by := func(engine string, calls int64) *Profile {
		m := profiletest.Drawing(calls)
		m.Meta().Engine = engine
		return New("drawing", m.Snapshot())
	}
	pruned := profiletest.Drawing(0)
	z := pruned.Names().Intern(ccmap.Method{Name: "main.z"})
	for i := range 3000 { // less is not pruned
		n := pruned.Child(pruned.Child(pruned.Root(), ccmap.NoOffset, z), uint32(i), z)
		pruned.Add(n, ccmap.Counters{Samples: 1, Time: profiletest.SampleNS})
	}
	pruned.Prune(0)
	for _, test := range []struct {
		p    *Profile
		want string
	}{
		{whole, "1,000 calls caught by breakpoints."},
		{recent, "1,000 calls caught by breakpoints, in the whole run."},
		{New("drawing", profiletest.Drawing(0).Snapshot()), "No calls were caught:"},
		{New("drawing", pruned.Snapshot()), "Contexts are lower bounds"},
		{by(wasm.SamplingEngine, 500), "1,000 calls caught."},
		{by(wasm.SamplingEngine, 0), "No calls were caught."},
		{by(wasm.ExactEngine, 0), "each one is recorded"},
	} {
		list := allReceivers(test.p, nil)
		if notes := strings.Join(list.notes(), "\n"); !strings.Contains(notes, test.want) {
			t.Errorf("notes are\n%s\nwant %q", notes, test.want)
		}
	}
}

// TestPointsAndReceiversAgree: 'points' gives the samples of a call site to the
// receivers that 'receivers' gives them to, whatever the points of samples say that a
// file of an earlier version has.
func TestPointsAndReceiversAgree(t *testing.T) {
	t.Parallel()
	const types, samples = 20, 15
	m := ccmap.New(ccmap.Options{})
	id := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	site := ccmap.Frame{Method: id("main.draw"), Offset: 2}
	for i := range types * samples {
		target := ccmap.Frame{Method: id(fmt.Sprintf("main.T%d.Area", i%types)), Offset: 1}
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{target, site}, Weight: profiletest.SampleNS, Fresh: ccmap.FreshUnknown})
	}
	m.AddPoint(ccmap.Point{
		Origin: ccmap.OriginSampled, Method: site.Method, Offset: site.Offset, Nulls: ccmap.NullsUnknown,
		Values: []ccmap.PointValue{{Value: uint64(id("main.T3.Area")), Count: 10}}, Aged: types*samples - 10,
	})
	p := New("", m.Snapshot())
	list, err := NewPoints(p, PointsList{})
	if err != nil {
		t.Fatal(err)
	}
	points := list.Rows
	row := allReceivers(p, nil).Rows[0]
	if len(points) != 1 || len(points[0].Values) != types || len(row.Samples.Targets) != types {
		t.Fatalf("points %+v, receivers %+v", points, row.Samples.Targets)
	}
	if q := points[0]; q.Count != types*samples || q.Aged != 0 || q.CheckValid(p.Names()) != nil {
		t.Errorf("point %+v", q)
	}
	for _, v := range points[0].Values {
		at := slices.IndexFunc(row.Samples.Targets, func(to pollution.Target) bool { return uint64(to.Method) == v.Value })
		if at < 0 || row.Samples.Targets[at].Seen != v.Count || v.Count != samples {
			t.Errorf("%s has %d samples in 'points', receivers %+v", p.Names().At(ccmap.MethodID(v.Value)).Name, v.Count, row.Samples.Targets)
		}
	}
}

// TestRecentKeepsThePhase: the window of a profile has the phase that was chosen for it,
// and does not repeat a caution.
func TestRecentKeepsThePhase(t *testing.T) {
	t.Parallel()
	m := profiletest.Drawing(500)
	points := m.Snapshot().Points()
	later := points[0]
	later.Phase = 1
	m.AddPoint(later)
	p := New("drawing", m.Snapshot())
	if err := p.UsePhase(2); err != nil {
		t.Fatal(err)
	}
	p.cautioned = true
	want := allReceivers(p, nil).Caught
	recent, err := p.RecentOnly()
	if err != nil {
		t.Fatal(err)
	}
	if got := allReceivers(recent, nil).Caught; got != want || want == 0 || !recent.cautioned {
		t.Errorf("%d caught calls in the window, want %d of phase 2; cautioned: %t", got, want, recent.cautioned)
	}
}
