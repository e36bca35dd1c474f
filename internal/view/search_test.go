package view

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestSearchCountsOnce: the total of a search is the samples with any of the methods on their stack, however many of
// them are there; and the limit changes the list alone.
func TestSearchCountsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		s := profiletest.Fold(profiletest.Samples(t, names), names)
		text := rapid.SampledFrom([]string{"", "a", "b", "m", "1", "zzz"}).Draw(t, "text")
		v, err := NewSearch(New("x", s), SearchOptions{Text: text, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		for id, got := range s.Cumulative() {
			if m, seen := s.Method(ccmap.MethodID(id)); seen && got != m.Cumulative() || !seen && !got.IsZero() {
				t.Errorf("method %d has %v, want %v", id, got, m.Cumulative())
			}
		}
		want := int64(0)
		for _, st := range stacksOf(s) {
			if slices.ContainsFunc(st.frames, func(f stackFrame) bool { return strings.Contains(strings.ToLower(f.name), text) }) {
				want += st.self
			}
		}
		if v.total.Time != want || len(v.rows) > 1 || v.found < len(v.rows) {
			t.Errorf("%q: total %d of %d methods, %d listed; want %d", text, v.total.Time, v.found, len(v.rows), want)
		}
	})
}

// TestSearchMatches: a text is found in any case unless it has upper case letters, and an expression is one.
func TestSearchMatches(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	for _, name := range []string{"Server.Handle", "server.handle", "(*conn).serve", strings.Repeat("\x80", 1<<20)} {
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: name})}}, Weight: 10})
	}
	p := New("x", m.Snapshot())
	for _, test := range []struct {
		o     SearchOptions
		found int
		code  Code
	}{
		{SearchOptions{Text: "handle"}, 2, ""},
		{SearchOptions{Text: "Handle"}, 1, ""},
		{SearchOptions{Text: "(*conn)"}, 1, ""},
		{SearchOptions{Match: "^server"}, 1, ""},
		{SearchOptions{Match: "(?i)^server"}, 2, ""},
		{SearchOptions{}, 4, ""},
		{SearchOptions{Match: "("}, 0, CodeUsage},
		{SearchOptions{Text: "a", Match: "b"}, 0, CodeUsage},
		{SearchOptions{Text: strings.Repeat("a", mostPattern+1)}, 0, CodeUsage},
		{SearchOptions{Match: "(a{1000}){1}b{1000}"}, 0, CodeTooLarge},
	} {
		v, err := NewSearch(p, test.o)
		if test.code != "" {
			if ErrorOf(err).Code != test.code {
				t.Errorf("%+.50v: %v, want %s", test.o, err, test.code)
			}
			continue
		}
		if err != nil || v.found != test.found {
			t.Errorf("%+v: %v, %v, want %d", test.o, v, err, test.found)
		}
	}
	v, err := NewSearch(p, SearchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.rows {
		if got := shortened(r.method.Name); len(got) > mostNameJSON+len("…") {
			t.Errorf("a name of %d bytes is listed", len(got))
		}
	}
}

// BenchmarkSearch looks for methods among 5,000 in a profile of a million nodes.
func BenchmarkSearch(b *testing.B) {
	p, _ := millionNodes()
	m := ccmap.New(ccmap.Options{})
	if err := m.Merge(p.Snapshot); err != nil {
		b.Fatal(err)
	}
	if _, err := NewSearch(p, SearchOptions{}); err != nil { // the first one sums the snapshot up, for all views
		b.Fatal(err)
	}
	b.Run("for=text,first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			fresh := New("p", m.Snapshot())
			b.StartTimer()
			if _, err := NewSearch(fresh, SearchOptions{Text: "part7"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, o := range map[string]SearchOptions{
		"for=text": {Text: "part7"}, "for=expression": {Match: `part[0-9]7.*Method.*3$`}, "for=all": {},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := NewSearch(p, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
