package compare_test

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"pgregory.net/rapid"
)

// prunedOf builds a map of stacks whose frames beyond some depth were pruned, in
// the way a decoder does: kept says how many are left of a stack.
func prunedOf(stacks []stack, kept func(stack) int) *ccmap.Snapshot {
	var short []stack
	for _, s := range stacks {
		n := kept(s)
		if n == len(s.frames) {
			short = append(short, s)
		}
	}
	m := mapOf(short)
	for _, s := range stacks {
		if n := kept(s); n < len(s.frames) {
			addPruned(m, s, n)
		}
	}
	return m.Snapshot()
}

// addPruned adds a stack and keeps n of its frames.
func addPruned(m *ccmap.Map, s stack, n int) {
	id := func(f frame) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: f.method}) }
	counts := ccmap.Counters{Samples: s.counts.Samples, Time: s.counts.Time}
	node, caller, site := m.Root(), ccmap.NoMethod, uint32(ccmap.NoOffset)
	seen := map[string]bool{}
	for i, f := range s.frames {
		if i < n {
			node = m.Child(node, site, id(f))
		} else {
			total := counts
			if i == len(s.frames)-1 {
				total.Activations = s.counts.Activations
			}
			m.AddPruned(ccmap.PrunedEdge{Caller: caller, Offset: site, Callee: id(f), Total: total})
			if !seen[f.method] {
				m.AddPrunedMethod(ccmap.PrunedMethod{Method: id(f), Cumulative: counts})
			}
		}
		seen[f.method] = true
		caller, site = id(f), f.offset
	}
	m.AddPrunedMethod(ccmap.PrunedMethod{Method: caller, Self: counts})
	m.Add(m.Child(node, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: ccmap.PrunedName})), counts)
}

// cutTo leaves the kept frames, with the time that was pruned below them.
func cutTo(stacks []stack, kept func(stack) int) []stack {
	var out []stack
	for _, s := range stacks {
		if n := kept(s); n < len(s.frames) {
			s.frames = s.frames[:n]
			s.counts.Activations = 0
		}
		if len(s.frames) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// Methods and edges are compared over full totals, contexts over the kept ones.
func TestComparePruned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawStacks("a").Draw(t, "a"), drawStacks("b").Draw(t, "b")
		w := rapid.SampledFrom(weights).Draw(t, "weight")
		limit := rapid.IntRange(0, 9).Draw(t, "kept")
		kept := func(s stack) int { return min(limit, len(s.frames)) }
		got, err := compare.Compare(prunedOf(a, kept), snapshotOf(b), compare.Options{Weight: w})
		if err != nil {
			t.Fatal(err)
		}
		methodsA, edgesA, _ := explicit(a, w)
		methodsB, edgesB, contextsB := explicit(b, w)
		_, _, contextsA := explicit(cutTo(a, kept), w)
		checkOverlap(t, "methods", got.Methods, methodsA, methodsB)
		checkOverlap(t, "edges", got.Edges, edgesA, edgesB)
		checkOverlap(t, "contexts", got.Contexts, contextsA, contextsB)
	})
}

// A map pruned to a budget has all methods and edges of the whole map.
func TestComparePrunedWithWhole(t *testing.T) {
	t.Parallel()
	p := newProgram(200, true)
	m := p.newMap()
	if err := m.Merge(p.profile(20_000, 1)); err != nil {
		t.Fatal(err)
	}
	whole := m.Snapshot()
	m.Prune(m.Bytes() / 2)
	got := mustCompare(t, whole, m.Snapshot(), compare.Options{})
	if got.Methods.Percent != 100 || got.Edges.Percent != 100 {
		t.Errorf("methods overlap by %v, edges by %v, want 100", got.Methods.Percent, got.Edges.Percent)
	}
	if got.Contexts.Percent >= 100 || got.A.Pruned != 0 || !(got.B.Pruned > 0 && got.B.Pruned < 100) {
		t.Errorf("contexts overlap by %v, pruned %v and %v", got.Contexts.Percent, got.A.Pruned, got.B.Pruned)
	}
	floor, err := compare.Floors(m.Snapshot(), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if floor.Methods != got.Methods.FloorB || floor.Edges != got.Edges.FloorB || floor.Contexts != got.Contexts.FloorB {
		t.Errorf("floors %+v, in a comparison %+v", floor, got)
	}
	if !(floor.Methods > 0 && floor.Methods < 100 && floor.Edges > 0 && floor.Edges < 100) {
		t.Errorf("floors %+v", floor)
	}
}

// Two profiles of one behaviour are the same even if one of them lost most of its
// contexts, and another behaviour shows in pruned ones.
func TestVerdictOfPruned(t *testing.T) {
	t.Parallel()
	trials := uint64(20)
	if testing.Short() {
		trials = 3
	}
	p := newProgram(60, false)
	half := func(s session) *ccmap.Snapshot {
		m := p.newMap()
		if err := m.Merge(s.profile(p)); err != nil {
			t.Fatal(err)
		}
		m.Prune(m.Bytes() / 2)
		return m.Snapshot()
	}
	o := compare.Options{Tolerance: compare.DefaultTolerance}
	for trial := range trials {
		whole := session{samples: 2000, interval: 10, seed: 3 * trial}
		same := session{samples: 2000, interval: 10, seed: 3*trial + 1}
		other := session{samples: 2000, interval: 10, seed: 3*trial + 2, shift: 0.5}
		for _, test := range []struct {
			name string
			a, b *ccmap.Snapshot
			want compare.Verdict
		}{
			{"one pruned", whole.profile(p), half(same), compare.Same},
			{"both pruned", half(whole), half(same), compare.Same},
			{"another behaviour", half(whole), half(other), compare.Differs},
		} {
			got := mustCompare(t, test.a, test.b, o)
			if got.Verdict != test.want || got.B.Pruned < 20 {
				t.Errorf("%s: %v, want %v; %.0f %% pruned: %+v", test.name, got.Verdict, test.want, got.B.Pruned, got.Edges)
			}
			if len(got.Families) > 0 {
				t.Errorf("%s: families of contexts that were pruned: %v", test.name, got.Families)
			}
		}
	}
}
