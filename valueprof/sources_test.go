package valueprof

import (
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSources(t *testing.T) {
	t.Parallel()
	one, two := Site{Method: 1}, Site{Method: 1, Offset: 2}
	sampled := Views{
		{Site: two, Count: 3, Values: []Value{{9, 3}}, Nulls: NullsUnknown},
		{Site: one, Count: 10, Values: []Value{{7, 5}, {8, 3}}, Other: 1, Aged: 1, Nulls: NullsUnknown},
	}
	bursts := Views{{Site: one, Count: 9, Values: []Value{{8, 6}, {6, 2}}, Nulls: 1}}
	coverage := Views{
		{Site: one, Kind: KindBlock, Count: 1000, Nulls: NullsUnknown},
		{Site: one, Count: 1, Nulls: 1},
	}
	var s Sources
	if got := views(subset{&s, AllSources}); got != nil {
		t.Errorf("of no sources: %+v", got)
	}
	s.Set(Sampled, sampled)
	s.Set(Instrumented, bursts)
	s.Set(Imported, coverage)

	both := PointView{Site: one, Count: 19, Values: []Value{{8, 9}, {7, 5}, {6, 2}}, Other: 1, Aged: 1, Nulls: 1}
	all := both
	all.Count, all.Nulls = 20, 2
	for _, c := range []struct {
		name  string
		which Source
		want  Views
	}{
		{"none", 0, nil},
		{"one, as it is", Sampled, sampled},
		{"two", Sampled | Instrumented, Views{both, sampled[0]}},
		{"all", AllSources, Views{all, coverage[0], sampled[0]}},
	} {
		if diff := cmp.Diff(c.want, Views(views(subset{&s, c.which}))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	s.Set(Sampled|Instrumented, nil)
	if got := views(subset{&s, Sampled | Instrumented}); got != nil {
		t.Errorf("of sources that were taken away: %+v", got)
	}
}

// subset is some of the sources, as one.
type subset struct {
	of    *Sources
	which Source
}

func (s subset) Points() iter.Seq[PointView] { return s.of.Points(s.which) }
