package export

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

func parsed(t *rapid.T, data string) *profile.Profile {
	p, err := profile.ParseData([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// CPU figures have nothing of points: the profile without them is that without
// their samples and their types of values.
func TestHitsCountNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawPruned(t, build)
		with := parsed(t, mustEncode(t, Pprof, m.Snapshot()))
		for o := range ccmap.OriginImported + 1 {
			m.SetPoints(o, nil)
		}
		without := parsed(t, mustEncode(t, Pprof, m.Snapshot()))
		types := len(without.SampleType)
		if len(with.Sample) < len(without.Sample) {
			t.Fatalf("%d samples, want at least %d", len(with.Sample), len(without.Sample))
		}
		for i, s := range with.Sample {
			if len(s.Label[hitLabel]) > 0 {
				if i < len(without.Sample) || cmp.Diff(make([]int64, types), s.Value[:types]) != "" {
					t.Fatalf("hit %d of %d counts %v", i, len(without.Sample), s.Value)
				}
				continue
			}
			want := without.Sample[i]
			if cmp.Diff(want.Value, s.Value[:types]) != "" || cmp.Diff(want.Label, s.Label) != "" || len(want.Location) != len(s.Location) {
				t.Fatalf("sample %d is %v, want %v", i, s, want)
			}
		}
		if with.DefaultSampleType != columnOf(m.Meta().Unit.Kind()) {
			t.Fatalf("default %q", with.DefaultSampleType)
		}
	})
}

// Each call is a hit once, however differently a site and its contexts have aged.
func TestHitsCountEachCallOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawMap(t, build).Snapshot()
		type counts struct{ any, inContexts int64 }
		sites := make(map[ccmap.Frame]counts)
		for _, p := range pointsFor(s, Pprof) {
			site := ccmap.Frame{Method: p.Method, Offset: p.Offset}
			c := sites[site]
			if p.Callers == nil {
				c.any += p.Count
			} else {
				c.inContexts += p.Count
			}
			sites[site] = c
		}
		var want, wantOfSites int64
		for _, c := range sites {
			want, wantOfSites = want+max(c.any, c.inContexts), wantOfSites+c.any
		}
		var got, gotOfSites int64
		for _, sample := range parsed(t, mustEncode(t, Pprof, s)).Sample {
			if last := len(sample.Value) - 1; len(sample.Label[hitLabel]) > 0 {
				got, gotOfSites = got+sample.Value[last-1], gotOfSites+sample.Value[last]
			}
		}
		if got != want || gotOfSites != wantOfSites {
			t.Fatalf("%d hits, want %d; %d of sites, want %d", got, want, gotOfSites, wantOfSites)
		}
	})
}

// As many samples as points may have are written, and no more.
func TestWrittenHitsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCanonical(small().Snapshot(), Pprof)
	values := make([]ccmap.PointValue, 1<<10)
	c.points = slices.Repeat([]ccmap.Point{{Values: values, Nulls: ccmap.NullsUnknown}}, maxWrittenHits/len(values))
	c.points[0].Nulls = 0 // which are known: one more
	if err := checkWritten(c); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "2097153 counts") {
		t.Errorf("one too many: %v", err)
	}
	c.points[0].Nulls = ccmap.NullsUnknown
	if err := checkWritten(c); err != nil {
		t.Error(err)
	}
}

// What pprof itself writes of several of our profiles has the sums of their
// points.
func TestHitsAddUpInMergedProfiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := ccmap.New(ccmap.Options{})
		var parts []*profile.Profile
		for range rapid.IntRange(1, 3).Draw(t, "profiles") {
			m := points() // so that all have the same types of values
			p := rapid.SampledFrom(m.Snapshot().Points()[1:6]).Draw(t, "another")
			p.Count, p.Other = 0, rapid.Int64Range(0, 9).Draw(t, "more")
			m.AddPoint(p)
			parts = append(parts, parsed(t, mustEncode(t, Pprof, m.Snapshot())))
			if err := want.Merge(m.Snapshot()); err != nil {
				t.Fatal(err)
			}
		}
		merged, err := profile.Merge(parts)
		var b bytes.Buffer
		if err == nil {
			err = merged.Write(&b)
		}
		if err != nil {
			t.Fatal(err)
		}
		wanted, got := pointsOf(want.Snapshot(), Pprof), pointsOf(mustDecode(t, Pprof, b.String()), XML)
		if diff := cmp.Diff(withoutNulls(wanted), withoutNulls(got)); diff != "" {
			t.Fatalf("(-merged maps +merged profiles):\n%s", diff)
		}
	})
}

// withoutNulls takes unknown null receivers for none: pprof drops the samples that
// count nothing, which tell the two apart.
func withoutNulls(points map[string]ccmap.Point) map[string]ccmap.Point {
	for name, p := range points {
		p.Nulls = max(p.Nulls, 0)
		points[name] = p
	}
	return points
}

// labelled is a profile of one sample of f, called by main, with labels and types
// of values as ours are.
func labelled(comments []string, label map[string][]string, types ...valueType) *profile.Profile {
	f := &profile.Function{ID: 1, Name: "f", SystemName: "f", StartLine: 3}
	main := &profile.Function{ID: 2, Name: "main", SystemName: "main", StartLine: 10}
	p := &profile.Profile{
		Function: []*profile.Function{f, main},
		Location: []*profile.Location{{ID: 1, Line: []profile.Line{{Function: f, Line: 3}}}, {ID: 2, Line: []profile.Line{{Function: main, Line: 12}}}},
		Comments: comments,
	}
	s := &profile.Sample{Location: p.Location, Label: label}
	for _, t := range append([]valueType{samplesType, timeType, activationsType}, types...) {
		p.SampleType = append(p.SampleType, t.proto())
		s.Value = append(s.Value, 7)
	}
	p.Sample = []*profile.Sample{s}
	return p
}

// Labels of other tools say nothing, nor do ours without the values they speak of.
func TestForeignLabelsAreDropped(t *testing.T) {
	t.Parallel()
	label := map[string][]string{receiverLabel: {"*T"}, hitLabel: {"target"}, contextLabel: {"any"}}
	for name, p := range map[string]*profile.Profile{
		"other tool":     labelled(nil, label, hitsType, siteHitsType),
		"without values": labelled([]string{"ccmapd version 1"}, map[string][]string{hitLabel: {"target"}}, hitsType),
		"another kind":   labelled(nil, map[string][]string{hitLabel: {"x"}}, hitsType, siteHitsType),
	} {
		s := decode(t, encodeProfile(t, p))
		f, found := s.Names().Lookup("f", "")
		if !found || s.Total().Samples != 7 || len(s.Points()) > 0 || s.Names().At(f).Receiver != "" {
			t.Errorf("%s: total %v, points %v, f is %+v", name, s.Total(), s.Points(), s.Names().At(f))
		}
	}
}

// A sample may be that of a point and count CPU time as well.
func TestHitsThatCountCPU(t *testing.T) {
	t.Parallel()
	label := map[string][]string{receiverLabel: {"*T"}, hitLabel: {"target"}}
	s := decode(t, encodeProfile(t, labelled([]string{"ccmapd version 1"}, label, hitsType, siteHitsType)))
	f, _ := s.Names().Lookup("f", "")
	main, _ := s.Names().Lookup("main", "")
	want := []ccmap.Point{{
		Origin: ccmap.OriginBurst, Method: main, Offset: 2, End: 2, Callers: []ccmap.Frame{},
		Count: 7, Values: []ccmap.PointValue{{Value: uint64(f), Count: 7}}, Nulls: ccmap.NullsUnknown,
	}}
	if diff := cmp.Diff(want, s.Points()); diff != "" || s.Total().Samples != 7 || s.Names().At(f).Receiver != "*T" {
		t.Errorf("total %v, f is %+v (-want +got):\n%s", s.Total(), s.Names().At(f), diff)
	}
}

func TestReadRefusesBrokenHits(t *testing.T) {
	t.Parallel()
	broken := func(kind string, change func(*profile.Profile)) string {
		p := labelled([]string{"ccmapd version 1"}, map[string][]string{hitLabel: {kind}}, hitsType, siteHitsType)
		change(p)
		return encodeProfile(t, p)
	}
	deepen := func(p *profile.Profile) {
		s := p.Sample[0]
		s.Location = append(s.Location, s.Location[1], s.Location[1], s.Location[1], s.Location[1])
	}
	for name, test := range map[string]struct{ in, says string }{
		"kind":     {broken("hat", func(*profile.Profile) {}), `sample 0: hit of the unknown kind "hat"`},
		"short":    {broken("target", func(p *profile.Profile) { p.Sample[0].Location = p.Location[:1] }), `hit of the kind "target" with 1 frames`},
		"none":     {broken("other", func(p *profile.Profile) { p.Sample[0].Location = nil }), `with 0 frames`},
		"deep":     {broken("target", deepen), `with 6 frames`},
		"any":      {broken("other", func(p *profile.Profile) { p.Sample[0].Label[contextLabel] = []string{"any"} }), `with 2 frames`},
		"negative": {broken("null", func(p *profile.Profile) { p.Sample[0].Value[3] = -1 }), `counted -1 times`},
		"inlined": {broken("target", func(p *profile.Profile) {
			l := p.Location[1]
			l.Line = append(l.Line, l.Line[0])
		}), `hit at a location of 2 frames`},
	} {
		for _, read := range []func() error{
			func() error { _, _, err := Read(strings.NewReader(test.in), ReadOptions{}); return err },
			func() error { _, err := ReadPart(strings.NewReader(test.in), ReadOptions{}); return err },
		} {
			if err := read(); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: got %v, want %q", name, err, test.says)
			}
		}
	}
}
