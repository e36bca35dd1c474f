package ccmap_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// since returns the model of all that was counted after o.
func (x *model) since(o *model) *model {
	d := newModel()
	d.merge(x)
	subtractCounts(d.explicit, o.explicit)
	subtractCounts(d.cumulative, o.cumulative)
	subtractCounts(d.self, o.self)
	subtractCounts(d.lines, o.lines)
	subtractCounts(d.sites, o.sites)
	subtractCounts(d.sitesOnce, o.sitesOnce)
	subtractCounts(d.edgesOnce, o.edgesOnce)
	d.total = minus(d.total, o.total)
	return d
}

func subtractCounts[K comparable](x, o map[K]ccmap.Counters) {
	for k, c := range o {
		if x[k] = minus(x[k], c); x[k].IsZero() {
			delete(x, k)
		}
	}
}

func minus(a, b ccmap.Counters) ccmap.Counters {
	return ccmap.Counters{Samples: a.Samples - b.Samples, Time: a.Time - b.Time, Activations: a.Activations - b.Activations}
}

func mustSubtract(t fataler, old, new *ccmap.Snapshot) *ccmap.Snapshot {
	d, err := ccmap.Delta(old, new)
	if err != nil {
		t.Fatal(err)
	}
	mustBeValid(t, d)
	return d.Snapshot()
}

// TestDeltaLaws folds, prunes, merges and lets the window decay in random order, and
// takes snapshots. For any two of them the delta has exactly the totals of the samples in
// between, and contexts that are no more than theirs. Deltas add up.
func TestDeltaLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 60)
		window := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "window")
		m := ccmap.New(ccmap.Options{Names: p.names, Window: window})
		want := newModel()
		states := []frozen{freeze(m, want)}
		for i := range p.samples {
			p.samples[i].Time = int64(i) * int64(rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "pause"))
			m.Fold(&p.samples[i])
			want.update(p.stacks[i], p.samples[i].Weight, p.fresh[i])
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				m.PruneTo(rapid.IntRange(0, m.Len()).Draw(t, "nodes"))
			case 1:
				states = append(states, freeze(m, want))
			case 2:
				from := rapid.SampledFrom(states).Draw(t, "merged")
				if err := m.Merge(from.Snapshot); err != nil {
					t.Fatal(err)
				}
				want.merge(from.model)
			}
		}
		states = append(states, freeze(m, want))
		draw := func(least int) int { return rapid.IntRange(least, len(states)-1).Draw(t, "state") }
		i := draw(0)
		j := draw(i)
		k := draw(j)
		a, b, c := states[i], states[j], states[k]

		ab, bc := mustSubtract(t, a.Snapshot, b.Snapshot), mustSubtract(t, b.Snapshot, c.Snapshot)
		b.model.since(a.model).mustMatchPruned(t, ab)
		sum := merged(t, a.Snapshot, ab)
		b.model.mustMatchPruned(t, under(t, sum, p.names))
		if !b.Pruned() {
			if d := cmp.Diff(byName(b.Snapshot), byName(sum)); d != "" {
				t.Fatalf("contexts (-want +got):\n%s", d)
			}
		}
		c.model.since(a.model).mustMatchPruned(t, under(t, merged(t, ab, bc), p.names))
		// Snapshots of merged maps have names of their own.
		apart := mustSubtract(t, merged(t, a.Snapshot), merged(t, b.Snapshot))
		b.model.since(a.model).mustMatchPruned(t, under(t, apart, p.names))
		if none := mustSubtract(t, b.Snapshot, b.Snapshot); none.Len() != 1 || none.Pruned() {
			t.Fatalf("the delta of a state to itself has %d nodes", none.Len())
		}
	})
}

// under returns a snapshot with the ids of a program.
func under(t fataler, s *ccmap.Snapshot, names *ccmap.Names) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: names})
	if err := m.Merge(s); err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}

func TestDeltaRefuses(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	before := m.Snapshot()
	m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: a}}, Weight: 7})
	after := m.Snapshot()
	other := ccmap.New(ccmap.Options{Names: m.Names()})
	other.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: b}}, Weight: 9})
	instructions := ccmap.New(ccmap.Options{})
	if err := instructions.SetUnit(ccmap.Instructions); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		old, new *ccmap.Snapshot
		want     error
	}{
		"backwards":     {after, before, ccmap.ErrNotEarlier},
		"another map":   {after, other.Snapshot(), ccmap.ErrNotEarlier},
		"another unit":  {after, instructions.Snapshot(), ccmap.ErrUnlike},
		"another graph": {callsOf("a", "b", "c", "d"), callsOf("a", "d", "c", "b"), ccmap.ErrNotEarlier},
	} {
		if _, err := ccmap.Delta(test.old, test.new); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// callsOf returns a profile of calls: of a method by the method before it, in pairs.
func callsOf(methods ...string) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for pair := range slices.Chunk(methods, 2) {
		caller, callee := m.Names().Intern(ccmap.Method{Name: pair[0]}), m.Names().Intern(ccmap.Method{Name: pair[1]})
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: callee}, {Method: caller, Offset: 1}}, Weight: 5})
	}
	return m.Snapshot()
}

func TestDeltaDescribesThePeriod(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	m, a, _, _ := abc()
	first := ccmap.IntervalChange{Interval: time.Millisecond, Reason: "initial"}
	*m.Meta() = ccmap.Meta{
		Target: ccmap.Target{PID: 7}, Engine: "bpf", Start: noon, Duration: time.Minute, Interval: []ccmap.IntervalChange{first},
		Loss: ccmap.Loss{Queue: 2, Clock: time.Second, Unaccounted: -time.Millisecond}, Known: 5, Repeated: 3, Settled: ccmap.Settled{Edges: 90},
	}
	before := m.Snapshot()
	m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: a}}, Weight: 1})
	meta := m.Meta()
	meta.Duration = 3 * time.Minute
	meta.Interval = append(meta.Interval, ccmap.IntervalChange{At: 2 * time.Minute, Interval: time.Second})
	meta.Loss = ccmap.Loss{Queue: 2, Source: 1, Clock: 3 * time.Second, Unaccounted: time.Millisecond}
	meta.Known, meta.Repeated, meta.Comments = 9, 4, []string{"one"}
	want := ccmap.Meta{
		Target: ccmap.Target{PID: 7}, Engine: "bpf", Start: noon.Add(time.Minute), Duration: 2 * time.Minute,
		Interval: []ccmap.IntervalChange{first, {At: time.Minute, Interval: time.Second}},
		Loss:     ccmap.Loss{Source: 1, Clock: 2 * time.Second, Unaccounted: 2 * time.Millisecond}, Known: 4, Repeated: 1, Comments: []string{"one"},
	}
	if d := cmp.Diff(want, mustSubtract(t, before, m.Snapshot()).Meta()); d != "" {
		t.Errorf("description (-want +got):\n%s", d)
	}
}

// TestDeltaHasLaterIntervals: a delta has the interval in force at its start, and the later ones,
// also if the map has forgotten earlier ones since, and if there was a pause.
func TestDeltaHasLaterIntervals(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	change := func(at time.Duration, ms time.Duration) ccmap.IntervalChange {
		return ccmap.IntervalChange{At: at, Interval: ms * time.Millisecond}
	}
	m, _, _, _ := abc()
	meta := m.Meta()
	meta.Start, meta.Duration = noon, 2*time.Hour
	meta.Interval = []ccmap.IntervalChange{change(0, 10), change(time.Hour, 20), change(6*time.Hour, 40)}
	before := m.Snapshot()
	meta.Duration = time.Hour // of a file that says so
	meta.Interval = append(slices.Delete(meta.Interval, 1, 2), change(8*time.Hour, 5))
	got := mustSubtract(t, before, m.Snapshot()).Meta()
	want := ccmap.Meta{Start: noon.Add(6 * time.Hour), Interval: []ccmap.IntervalChange{change(0, 40), change(2*time.Hour, 5)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("description (-want +got):\n%s", d)
	}
	got.StartAt(noon.Add(7 * time.Hour))
	got.StartAt(noon) // it is earlier
	want = ccmap.Meta{Start: noon.Add(7 * time.Hour), Interval: []ccmap.IntervalChange{change(0, 40), change(time.Hour, 5)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("description from the end of the pause on (-want +got):\n%s", d)
	}
}

// TestDeltaOfPoints: a point has gained what it counts more, and nothing where a table has
// forgotten.
func TestDeltaOfPoints(t *testing.T) {
	t.Parallel()
	m, a, b, c := abc()
	point := func(offset uint32, counts ...int64) ccmap.Point {
		p := ccmap.Point{Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: a, Offset: offset, End: offset, Nulls: ccmap.NullsUnknown}
		for i, n := range counts {
			p.Values = append(p.Values, ccmap.PointValue{Value: uint64([]ccmap.MethodID{b, c}[i]), Count: n})
		}
		return p
	}
	m.SetPoints(ccmap.OriginBurst, []ccmap.Point{point(1, 5, 2), point(2, 9)})
	before := m.Snapshot()
	m.SetPoints(ccmap.OriginBurst, []ccmap.Point{point(1, 8, 1), point(2, 9), point(3, 4)})
	got := map[uint32]int64{}
	for _, p := range mustSubtract(t, before, m.Snapshot()).Points() {
		got[p.Offset] = p.Count
	}
	if d := cmp.Diff(map[uint32]int64{1: 3, 3: 4}, got); d != "" {
		t.Errorf("executions by line (-want +got):\n%s", d)
	}
}

// BenchmarkDelta is what rotation costs: the delta of a map of a million nodes after 100 samples.
func BenchmarkDelta(b *testing.B) {
	g := newCallGraph(1000)
	for _, pruned := range []bool{false, true} {
		name := "pruned=no"
		if pruned {
			name = "pruned=yes"
		}
		b.Run(name, func(b *testing.B) {
			m := ccmap.New(ccmap.Options{Names: g.names})
			for m.Len() < large(1_000_000) {
				m.FoldBatch(g.stacks(1000, 20, 60))
			}
			before := m.Snapshot()
			m.FoldBatch(g.stacks(100, 20, 60))
			if pruned {
				m.PruneTo(m.Len() * 9 / 10)
			}
			after := m.Snapshot()
			for b.Loop() {
				if _, err := ccmap.Delta(before, after); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
