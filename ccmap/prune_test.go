package ccmap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model has the counts that a map must have, also after pruning.
type model struct {
	explicit
	methodTotals
	total ccmap.Counters
}

func newModel() *model { return &model{explicit: explicit{}, methodTotals: newMethodTotals()} }

// update counts a stack, innermost first.
func (x *model) update(stack []ccmap.Frame, weight int64, fresh int) {
	x.explicit.update(stack, weight, fresh)
	x.methodTotals.update(stack, weight)
	x.total = x.total.Add(ccmap.Counters{Samples: 1, Time: weight, Activations: int64(fresh)})
}

// merge adds the counts of another model.
func (x *model) merge(o *model) {
	mergeCounts(x.explicit, o.explicit)
	mergeCounts(x.cumulative, o.cumulative)
	mergeCounts(x.self, o.self)
	mergeCounts(x.lines, o.lines)
	mergeCounts(x.sites, o.sites)
	mergeCounts(x.sitesOnce, o.sitesOnce)
	mergeCounts(x.edgesOnce, o.edgesOnce)
	x.total = x.total.Add(o.total)
}

func mergeCounts[K comparable](x, o map[K]ccmap.Counters) {
	for k, c := range o {
		x[k] = x[k].Add(c)
	}
}

// mustMatchPruned compares a snapshot with the model: methods and edges exactly,
// longer paths as lower bounds. They may lack no more than the counts that pruning
// took from their last edge.
func (x *model) mustMatchPruned(t errorer, s *ccmap.Snapshot) {
	t.Helper()
	mustBeValid(t, s)
	if s.Total() != x.total {
		t.Fatalf("Total() = %+v, want %+v", s.Total(), x.total)
	}
	x.methodTotals.mustMatch(t, s)
	removed := map[string]ccmap.Counters{}
	for e := range s.PrunedEdges() {
		removed[key([]ccmap.PathElem{{Method: e.Caller, Site: e.Offset}, {Method: e.Callee}})] = e.Total
	}
	seen := withoutPruned(s, viewed(s))
	for k, want := range x.explicit {
		got, ok := seen[k]
		delete(seen, k)
		if len(k) <= 12 {
			if got != want || !ok {
				t.Fatalf("%x: %+v, want %+v", k, got, want)
			}
			continue
		}
		mustNotExceed(t, k, got, want)
		mustNotExceed(t, k, want, got.Add(removed[k[len(k)-12:]]))
	}
	if len(seen) != 0 {
		t.Fatalf("paths that were not there: %v", seen)
	}
}

func mustNotExceed(t errorer, k string, a, b ccmap.Counters) {
	t.Helper()
	if a.Samples > b.Samples || a.Time > b.Time || a.Activations > b.Activations {
		t.Fatalf("%x: %+v exceeds %+v", k, a, b)
	}
}

// withoutPruned drops the paths that end at [pruned].
func withoutPruned(s *ccmap.Snapshot, x explicit) explicit {
	pruned, ok := s.Names().Lookup(ccmap.PrunedName, "")
	if !ok {
		return x
	}
	for k := range x {
		if strings.HasSuffix(k, key([]ccmap.PathElem{{Method: pruned}})) {
			delete(x, k)
		}
	}
	return x
}

// frozen is an unused snapshot, with the counts of another one that was taken at
// the same moment.
type frozen struct {
	*ccmap.Snapshot
	said  everything
	model *model
}

func freeze(m *ccmap.Map, x *model) frozen {
	copied := newModel()
	copied.merge(x)
	return frozen{m.Snapshot(), said(m.Snapshot()), copied}
}

func (f frozen) mustBeUnchanged(t errorer) {
	t.Helper()
	if d := cmp.Diff(f.said, said(f.Snapshot)); d != "" {
		t.Fatalf("a snapshot has changed:\n%s", d)
	}
	f.model.mustMatchPruned(t, f.Snapshot)
}

// TestPruneKeepsTotals folds, prunes to random sizes, merges and takes snapshots
// in random order.
func TestPruneKeepsTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 60)
		window := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "window")
		m := ccmap.New(ccmap.Options{Names: p.names, Window: window})
		want := newModel()
		var snapshots []frozen
		for i := range p.samples {
			p.samples[i].Time = int64(i) * int64(rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "pause"))
			m.Fold(&p.samples[i])
			want.update(p.stacks[i], p.samples[i].Weight, p.fresh[i])
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0, 1:
				m.PruneTo(rapid.IntRange(0, m.Len()).Draw(t, "nodes"))
			case 2:
				snapshots = append(snapshots, freeze(m, want))
			case 3:
				from := rapid.SampledFrom(append(slices.Clip(snapshots), freeze(m, want))).Draw(t, "merged")
				if err := m.Merge(from.Snapshot); err != nil {
					t.Fatal(err)
				}
				want.merge(from.model)
			}
			mustBeValid(t, m)
		}
		want.mustMatchPruned(t, m.Snapshot())
		for _, s := range snapshots {
			s.mustBeUnchanged(t)
		}
		if m.ActivationsExact() != p.exact {
			t.Fatalf("ActivationsExact() = %t", m.ActivationsExact())
		}
	})
}

// TestPruneInvisible checks that folding after a prune gives the same results as
// without: the same orphans, and every activation once.
func TestPruneInvisible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 60)
		if rapid.Bool().Draw(t, "no marks") {
			for i := range p.samples {
				p.samples[i].Fresh = ccmap.FreshUnknown
				p.samples[i].Top = rapid.SampledFrom([]ccmap.Repetition{ccmap.TopUnknown, ccmap.TopNew, ccmap.TopRepeated}).Draw(t, "top")
			}
		}
		pruned := ccmap.New(ccmap.Options{Names: p.names})
		for i := range p.samples {
			pruned.Fold(&p.samples[i])
			pruned.PruneTo(rapid.IntRange(0, pruned.Len()).Draw(t, "nodes"))
		}
		whole := fold(t, p)
		if pruned.Meta().Loss != whole.Meta().Loss {
			t.Fatalf("lost %+v, want %+v", pruned.Meta().Loss, whole.Meta().Loss)
		}
		got, want := pruned.Snapshot(), whole.Snapshot()
		if got.Total() != want.Total() || got.ActivationsExact() != want.ActivationsExact() {
			t.Fatalf("Total() = %+v, want %+v", got.Total(), want.Total())
		}
		for m := range want.Methods() {
			if p, _ := got.Method(m.ID()); p.Total() != m.Total() {
				t.Fatalf("Total of %s: %+v, want %+v", m.Method().Name, p.Total(), m.Total())
			}
		}
	})
}

// TestPruneKeepsTheHeaviest checks what is left of a map with contexts of
// different weight: the heaviest ones, of those as heavy the newest.
func TestPruneKeepsTheHeaviest(t *testing.T) {
	t.Parallel()
	m, a, b, c := abc()
	for i, weight := range []int64{5, 1, 1, 1, 9} {
		m.Fold(&ccmap.Sample{Weight: weight * 1000, Frames: []ccmap.Frame{
			{Method: c, Offset: ccmap.NoOffset}, {Method: b, Offset: uint32(i)}, {Method: a, Offset: uint32(i)},
		}})
	}
	m.PruneTo(m.Len() - 4)
	mustBeValid(t, m)
	want := map[string]ccmap.Counters{
		"@4294967295 > A":                       {},
		"@4294967295 > A@0 > B":                 {},
		"@4294967295 > A@0 > B@0 > C":           {Samples: 1, Time: 5000},
		"@4294967295 > A@3 > B":                 {},
		"@4294967295 > A@3 > B@3 > C":           {Samples: 1, Time: 1000},
		"@4294967295 > A@4 > B":                 {},
		"@4294967295 > A@4 > B@4 > C":           {Samples: 1, Time: 9000},
		"@4294967295 > A@4294967295 > [pruned]": {Samples: 2, Time: 2000},
	}
	s := m.Snapshot()
	if d := cmp.Diff(want, byName(s)); d != "" {
		t.Errorf("contexts (-want +got):\n%s", d)
	}
	if got := s.Meta().Pruned; got != (ccmap.PruneStats{Times: 1, Nodes: 4}) || !s.Pruned() {
		t.Errorf("pruned %+v", got)
	}
	if got := s.PrunedTotal(); got != (ccmap.Counters{Samples: 2, Time: 2000}) {
		t.Errorf("PrunedTotal() = %+v", got)
	}
	edges := []ccmap.PrunedEdge{
		{Caller: a, Offset: 1, Callee: b, Total: ccmap.Counters{Samples: 1, Time: 1000}},
		{Caller: a, Offset: 2, Callee: b, Total: ccmap.Counters{Samples: 1, Time: 1000}},
		{Caller: b, Offset: 1, Callee: c, Total: ccmap.Counters{Samples: 1, Time: 1000}},
		{Caller: b, Offset: 2, Callee: c, Total: ccmap.Counters{Samples: 1, Time: 1000}},
	}
	if d := cmp.Diff(edges, slices.Collect(s.PrunedEdges())); d != "" {
		t.Errorf("PrunedEdges (-want +got):\n%s", d)
	}
	pruned, _ := s.Names().Lookup(ccmap.PrunedName, "")
	p, ok := s.Method(pruned)
	if total := (ccmap.Counters{Samples: 2, Time: 2000}); !ok || p.Total() != total || p.Cumulative() != total || !p.Self().IsZero() {
		t.Errorf("[pruned] has total %+v, cumulative %+v, self %+v", p.Total(), p.Cumulative(), p.Self())
	}
}

// TestPruneNothing leaves a map alone that is small enough, or empty.
func TestPruneNothing(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	m.Prune(0)
	server := server()
	server.Prune(server.Bytes())
	for _, m := range []*ccmap.Map{m, server} {
		mustBeValid(t, m)
		if s := m.Snapshot(); s.Pruned() || !s.PrunedTotal().IsZero() {
			t.Errorf("pruned %+v", s.Meta().Pruned)
		}
	}
}

// TestPruneCutsDeepStacks cuts one stack that is deeper than there is room for,
// in the middle.
func TestPruneCutsDeepStacks(t *testing.T) {
	t.Parallel()
	m, a, _, _ := abc()
	const depth = 100_000
	frames := slices.Repeat([]ccmap.Frame{{Method: a, Offset: 1}}, depth)
	for range 3 {
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1})
		m.Prune(m.Bytes() / 2)
		mustBeValid(t, m)
		if m.Len() < depth/10 {
			t.Errorf("%d nodes are left", m.Len())
		}
	}
	p, _ := m.Snapshot().Method(a)
	if got := p.Total().Samples; got != 3*depth {
		t.Errorf("total of %d samples, want %d", got, 3*depth)
	}
	if got := p.Cumulative().Samples; got != 3 {
		t.Errorf("cumulative %d samples, want 3", got)
	}
}

// TestPruneOverflow prunes nodes whose counts do not fit a column.
func TestPruneOverflow(t *testing.T) {
	t.Parallel()
	m, a, b, c := abc()
	const huge = 1 << 40
	nodeA := m.Child(m.Root(), 0, a)
	nodeB := m.Child(nodeA, 1, b)
	for node, n := range map[ccmap.NodeID]int64{
		nodeA: 1, nodeB: 2, m.Child(nodeB, 1, c): 3, m.Child(nodeA, 5, ccmap.NoMethod): 4,
	} {
		m.Add(node, ccmap.Counters{Samples: n * huge, Time: n * huge, Activations: huge})
	}
	whole := m.Snapshot()
	for nodes := 4; nodes > 0; nodes-- {
		m.PruneTo(nodes)
		mustBeValid(t, m)
		s := m.Snapshot()
		for want := range whole.Methods() {
			got, _ := s.Method(want.ID())
			if got.Total() != want.Total() || got.Cumulative() != want.Cumulative() || got.Self() != want.Self() {
				t.Errorf("%d nodes: %s has %+v, %+v, %+v; want %+v, %+v, %+v", nodes, want.Method().Name,
					got.Total(), got.Cumulative(), got.Self(), want.Total(), want.Cumulative(), want.Self())
			}
		}
	}
	if m.Meta().Pruned.Times < 3 {
		t.Errorf("pruned %d times", m.Meta().Pruned.Times)
	}
}

// TestPrunedCallSite removes calls from an unknown position, where [pruned] hangs
// as well: its counts are not calls of the position.
func TestPrunedCallSite(t *testing.T) {
	t.Parallel()
	m, a, b, c := abc()
	for callee, weight := range map[ccmap.MethodID]int64{b: 2000, c: 1000} {
		m.Fold(&ccmap.Sample{Weight: weight, Frames: []ccmap.Frame{
			{Method: callee, Offset: ccmap.NoOffset}, {Method: a, Offset: ccmap.NoOffset}, {Method: b, Offset: 1},
		}})
	}
	m.PruneTo(m.Len() - 1)
	s := m.Snapshot()
	if pruned := s.PrunedTotal(); pruned != (ccmap.Counters{Samples: 1, Time: 1000}) {
		t.Fatalf("PrunedTotal() = %+v", pruned)
	}
	for e := range s.Edges() {
		if e.Callee() != a {
			continue
		}
		for site := range e.Ref().CallSites() {
			if got, want := site.Total(), (ccmap.Counters{Samples: 1, Time: 2000}); got != want {
				t.Errorf("the calls from an unknown position have %+v, want %+v", got, want)
			}
		}
	}
}

// drawDecoded returns a map as a decoder may build it: any node counts, some more
// than a column holds, and some contexts were pruned before.
func drawDecoded(t *rapid.T) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Window: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "window")})
	methods := []ccmap.MethodID{ccmap.NoMethod}
	for _, name := range rapid.Permutation([]string{"A", "B", "C", ccmap.PrunedName}).Draw(t, "names") {
		methods = append(methods, m.Names().Intern(ccmap.Method{Name: name}))
	}
	counts := rapid.SampledFrom([]int64{0, 0, 1, 7, 1<<32 - 1, 1 << 32, 1 << 40})
	for range rapid.IntRange(0, 40).Draw(t, "nodes") {
		parent := ccmap.NodeID(rapid.IntRange(0, m.Len()-1).Draw(t, "parent"))
		site := rapid.SampledFrom([]uint32{0, 1, ccmap.NoOffset}).Draw(t, "site")
		n := m.Child(parent, site, rapid.SampledFrom(methods).Draw(t, "method"))
		m.Add(n, ccmap.Counters{
			Samples: counts.Draw(t, "samples"), Time: counts.Draw(t, "time"), Activations: counts.Draw(t, "activations"),
		})
	}
	return m
}

// exactTotals returns the totals that stay exact, by name.
func exactTotals(s *ccmap.Snapshot) map[string]ccmap.Counters {
	totals := map[string]ccmap.Counters{"total": s.Total()}
	add := func(key string, c ccmap.Counters) {
		if !c.IsZero() {
			totals[key] = totals[key].Add(c)
		}
	}
	name := func(m ccmap.MethodID) string { return s.Names().At(m).Name }
	for p := range s.Methods() {
		if name(p.ID()) == ccmap.PrunedName {
			continue
		}
		add(name(p.ID())+" total", p.Total())
		add(name(p.ID())+" cumulative", p.Cumulative())
		add(name(p.ID())+" self", p.Self())
		for at, c := range p.Lines() {
			add(fmt.Sprint(name(p.ID()), " line ", at), c)
		}
	}
	for e := range s.Edges() {
		if name(e.Callee()) != ccmap.PrunedName {
			add(fmt.Sprint(name(e.Caller()), " at ", e.Offset(), " calls ", name(e.Callee())), e.Total())
		}
	}
	return totals
}

// TestPruneKeepsDecoded prunes, merges and changes the window of maps that no
// sample has made, in random order: totals stay the same, also in snapshots taken
// between.
func TestPruneKeepsDecoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawDecoded(t)
		before := m.Snapshot()
		want := exactTotals(m.Snapshot())
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				m.PruneTo(rapid.IntRange(0, m.Len()).Draw(t, "left"))
			case 2:
				other := drawDecoded(t)
				other.PruneTo(rapid.IntRange(0, other.Len()).Draw(t, "left of the other"))
				from := other.Snapshot()
				for k, c := range exactTotals(other.Snapshot()) {
					want[k] = want[k].Add(c)
				}
				if err := m.Merge(from); err != nil {
					t.Fatal(err)
				}
			case 3:
				m.SetWindow(rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "window"))
			}
			mustBeValid(t, m)
			if d := cmp.Diff(want, exactTotals(m.Snapshot())); d != "" {
				t.Fatalf("totals (-want +got):\n%s", d)
			}
		}
		mustBeValid(t, before)
	})
}
