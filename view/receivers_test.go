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
	return NewReceivers(p, ReceiversList{List: List{Methods: callers}, All: true, Depth: 3})
}

// TestReceiversAndSitesAgree: without caught calls the verdicts are the hints of
// 'sites'.
func TestReceiversAndSitesAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, p := prunedPair(t)
		hints := make(map[ccmap.Frame]siteRow)
		for _, row := range siteRows(p, List{}) {
			id, _ := p.Names().Lookup(row.caller.Name, row.caller.Signature)
			hints[ccmap.Frame{Method: id, Offset: row.call.Offset}] = row
		}
		list := allReceivers(p, nil)
		if len(list.rows) != len(hints) {
			t.Errorf("%d sites, want %d", len(list.rows), len(hints))
		}
		for _, row := range list.rows {
			want := hints[ccmap.Frame{Method: row.Caller, Offset: row.Offset}]
			if row.decisive.Verdict != want.verdict || len(row.Receivers()) != want.targets {
				t.Errorf("%s+%d: %v of %d, in 'sites' %v of %d", row.caller.Name, row.Offset,
					row.decisive.Verdict, len(row.Receivers()), want.verdict, want.targets)
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
	if len(all.rows) != 3 || len(draw.rows) != 1 {
		t.Fatalf("%d sites in all, %d of draw", len(all.rows), len(draw.rows))
	}
	at := slices.IndexFunc(all.rows, func(r receiversRow) bool { return r.caller.Name == "main.draw" })
	if diff := cmp.Diff(siteText(t, all, all.rows[at]), siteText(t, draw, draw.rows[0])); diff != "" {
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
		row := NewReceivers(p, ReceiversList{Depth: 3}).rows[0]
		if row.byCalls != want.byCalls || row.verdict() != want.text {
			t.Errorf("of %d calls from each caller: %q, by calls: %t", calls, row.verdict(), row.byCalls)
		}
	}
}

// TestReceiversInAllFormats: every format but folded stacks keeps what is said.
func TestReceiversInAllFormats(t *testing.T) {
	t.Parallel()
	m := profiletest.Drawing(500)
	want := receiversIn(t, New("drawing", m.Snapshot()))
	for _, format := range []export.Format{export.Pprof, export.XML, export.JSON} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			var file bytes.Buffer
			if err := export.Write(&file, format, m.Snapshot()); err != nil {
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
	for _, row := range list.rows {
		text += siteText(t, list, row)
	}
	return text
}

func siteText(t *testing.T, list *Receivers, row receiversRow) string {
	t.Helper()
	var text bytes.Buffer
	if err := terminal.WriteJSON(&text, list.siteJSON(row)); err != nil {
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
		{by(wasm.SamplingEngine, 0), "catches calls through tables"},
		{by(wasm.ExactEngine, 0), "with --exact each one is recorded"},
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
	points := NewPoints(p, PointsList{}).rows
	row := allReceivers(p, nil).rows[0]
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
