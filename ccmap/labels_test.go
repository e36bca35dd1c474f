package ccmap_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLabelsMethod: the text of a set of labels says all of it, whatever is in it.
func TestLabelsMethod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		labels []ccmap.Label
		text   string
	}{
		{nil, ""},
		{[]ccmap.Label{{"route", "/api"}}, "route=/api"},
		{[]ccmap.Label{{"route", "/api"}, {"method", "GET"}}, "method=GET route=/api"},
		{[]ccmap.Label{{"a", "1"}, {"a", "2"}}, "a=2"},
		{[]ccmap.Label{{"", ""}}, `""=""`},
		{[]ccmap.Label{{"a b", "c=d"}}, `"a b"="c=d"`},
		{[]ccmap.Label{{"esc", "\x1b[31m"}}, `esc="\x1b[31m"`},
		{[]ccmap.Label{{"raw", "\xff`"}}, `raw="\xff` + "`\""},
	} {
		m := ccmap.LabelsMethod(c.labels)
		if m.Signature != c.text || !m.IsLabels() {
			t.Errorf("%q: %q, want %q", c.labels, m.Signature, c.text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{}
		var labels []ccmap.Label
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ ="\\a]{0,3}`), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }))
		for range rapid.IntRange(0, 4).Draw(t, "labels") {
			l := ccmap.Label{Key: text.Draw(t, "key"), Value: text.Draw(t, "value")}
			labels, want[l.Key] = append(labels, l), l.Value
		}
		m := ccmap.LabelsMethod(labels)
		got := map[string]string{}
		for _, l := range m.Labels() {
			got[l.Key] = l.Value
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q (-want +got):\n%s", m.Signature, d)
		}
		if again := ccmap.LabelsMethod(m.Labels()); again != m {
			t.Fatalf("%q becomes %q", m.Signature, again.Signature)
		}
	})
	for _, text := range []string{"a", "=", "a=1  b=2", `"a`, `"a"x=1`, `a="1`, "=b"} {
		if got := (ccmap.Method{Name: ccmap.LabelsName, Signature: text}).Labels(); got != nil && ccmap.LabelsMethod(got).Signature == "" {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// labelled returns a map of the program's samples with labels drawn for each thread, which
// change now and then, and the time of every set.
func labelled(t *rapid.T, p *program, fresh bool) (*ccmap.Map, map[string]ccmap.Counters) {
	m := ccmap.New(ccmap.Options{Names: p.names, Window: time.Second})
	sets := []string{"", "route=/api", "route=/", "job=1 route=/"}
	ids := map[string]ccmap.MethodID{}
	for _, text := range sets[1:] {
		ids[text] = p.names.Intern(ccmap.Method{Name: ccmap.LabelsName, Signature: text})
	}
	totals := map[string]ccmap.Counters{}
	of := map[uint64]string{}
	for i := range p.samples {
		s := p.samples[i]
		if !fresh {
			s.Fresh = ccmap.FreshUnknown
		}
		if s.Depth == 0 && rapid.IntRange(0, 2).Draw(t, "change") == 0 {
			of[s.Thread] = rapid.SampledFrom(sets).Draw(t, "set")
		}
		set := of[s.Thread]
		switch {
		case set != "" && s.Depth > 0:
			s.Depth++
		case set != "":
			s.Frames = append(slices.Clone(s.Frames), ccmap.Frame{Method: ids[set], Offset: ccmap.NoOffset})
		}
		orphaned := m.Meta().Loss.Orphaned
		if m.Fold(&s); m.Meta().Loss.Orphaned > orphaned {
			set = "" // which are the labels of a stack that is not known
		}
		totals[set] = totals[set].Add(ccmap.Counters{Samples: 1, Time: s.Weight})
	}
	mustBeValid(t, m)
	return m, totals
}

// TestWithoutLabels: without its labels a map is the map that it would be if there had
// never been any, and the totals of the sets are right, also after pruning.
func TestWithoutLabels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 40)
		fresh := rapid.Bool().Draw(t, "marks")
		plain := ccmap.New(ccmap.Options{Names: p.names, Window: time.Second})
		for i := range p.samples {
			s := p.samples[i]
			if !fresh {
				s.Fresh = ccmap.FreshUnknown
			}
			plain.Fold(&s)
		}
		want := plain.Snapshot()
		m, totals := labelled(t, p, fresh)
		s := m.Snapshot()
		got := s.WithoutLabels()
		mustBeValid(t, got)
		if d := cmp.Diff(byName(want), byName(got)); d != "" {
			t.Fatalf("without labels (-want +got):\n%s", d)
		}
		if want.Total() != got.Total() || want.ActivationsExact() != got.ActivationsExact() || got.Meta().Loss != want.Meta().Loss {
			t.Fatalf("total %+v, want %+v", got.Total(), want.Total())
		}
		checkSets(t, s, totals)
		if again := got.WithoutLabels(); again != got {
			t.Fatal("a snapshot without labels has labels")
		}
		for set, total := range totals {
			only := s.WithLabels(func(l []ccmap.Label) bool {
				return l == nil && set == "" || l != nil && ccmap.LabelsMethod(l).Signature == set
			})
			mustBeValid(t, only)
			if c := only.Total(); c.Samples != total.Samples || c.Time != total.Time {
				t.Fatalf("only %q: %+v, want %+v", set, c, total)
			}
		}

		m.PruneTo(rapid.IntRange(1, m.Len()).Draw(t, "nodes"))
		pruned := m.Snapshot()
		checkSets(t, pruned, totals)
		rest := pruned.WithoutLabels()
		mustBeValid(t, rest)
		if rest.Total() != want.Total() {
			t.Fatalf("pruned: total %+v, want %+v", rest.Total(), want.Total())
		}
		if d := cmp.Diff(edgeTotals(want), edgeTotals(rest)); d != "" {
			t.Fatalf("edges of the pruned map (-want +got):\n%s", d)
		}
	})
}

// edgeTotals returns the totals of the edges, and the self of methods, which pruning keeps.
func edgeTotals(s *ccmap.Snapshot) map[string]ccmap.Counters {
	totals := map[string]ccmap.Counters{}
	for m := range s.Methods() {
		if m.ID() == ccmap.PrunedID {
			continue
		}
		totals[m.Method().Name] = m.Self()
		totals["all of "+m.Method().Name] = m.Total()
		for site := range m.CallSites() {
			for c := range site.Callees() {
				if c.Callee() == ccmap.PrunedID {
					continue
				}
				edge := m.Method().Name + " > " + s.Names().At(c.Callee()).Name
				totals[edge] = totals[edge].Add(c.Total())
			}
		}
	}
	return totals
}

// checkSets compares the totals of the sets, and their sum.
func checkSets(t *rapid.T, s *ccmap.Snapshot, totals map[string]ccmap.Counters) {
	t.Helper()
	got := map[string]ccmap.Counters{}
	rest := s.Total()
	rest.Activations = 0
	for set := range s.LabelSets() {
		got[ccmap.LabelsMethod(set.Labels).Signature] = set.Total
		rest.Samples -= set.Total.Samples
		rest.Time -= set.Total.Time
	}
	if !rest.IsZero() {
		got[""] = rest
	}
	if d := cmp.Diff(totals, got); d != "" {
		t.Fatalf("sets (-want +got):\n%s", d)
	}
}

// TestLabelsOfTruncatedStacks: the labels stand above the mark of a cut stack, and change.
func TestLabelsOfTruncatedStacks(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	first := m.Names().Intern(ccmap.LabelsMethod([]ccmap.Label{{"k", "1"}}))
	second := m.Names().Intern(ccmap.LabelsMethod([]ccmap.Label{{"k", "2"}}))
	frames := func(labels ...ccmap.MethodID) []ccmap.Frame {
		stack := []ccmap.Frame{{Method: b, Offset: ccmap.NoOffset}, {Method: a, Offset: 1}}
		for _, l := range labels {
			stack = append(stack, ccmap.Frame{Method: l, Offset: ccmap.NoOffset})
		}
		return stack
	}
	for _, labels := range [][]ccmap.MethodID{{first}, {first}, {second}, nil} {
		m.Fold(&ccmap.Sample{Frames: frames(labels...), Truncated: true, Weight: 1, Fresh: ccmap.FreshUnknown})
	}
	mustBeValid(t, m)
	one := func(n int64) ccmap.Counters { return ccmap.Counters{Samples: n, Time: n} }
	const tail = " > [truncated]@4294967295 > A@1 > B"
	got := map[string]ccmap.Counters{}
	s := m.Snapshot()
	for set := range s.LabelSets() {
		got[set.Labels[0].Value] = set.Total
	}
	if d := cmp.Diff(map[string]ccmap.Counters{"1": one(2), "2": one(1)}, got); d != "" {
		t.Error(d)
	}
	if s.Blind().Truncated != 100 || s.WithoutLabels().Blind().Truncated != 100 {
		t.Error("not all of the profile is truncated")
	}
	want := map[string]ccmap.Counters{
		"@4294967295 > [truncated]": {}, "@4294967295 > [truncated]@4294967295 > A": {},
		"@4294967295" + tail: one(4),
	}
	if d := cmp.Diff(want, byName(s.WithoutLabels())); d != "" {
		t.Error(d)
	}
}
