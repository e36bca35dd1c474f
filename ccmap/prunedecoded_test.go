package ccmap_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

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

// exactTotals are what stays exact, by name.
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
// sample has made, in random order: totals are what they were, of snapshots taken
// between as well.
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
