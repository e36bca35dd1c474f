package ccmap_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// byName returns the counters of all contexts of a snapshot, under names instead
// of ids.
func byName(s *ccmap.Snapshot) map[string]ccmap.Counters {
	contexts := map[string]ccmap.Counters{}
	names := make([]string, s.Len())
	for n := range s.Nodes() {
		switch {
		case n.ID == 0:
			continue
		case n.IsPosition():
			names[n.ID] = fmt.Sprintf("%s:%d", names[n.Parent], n.Offset)
		default:
			names[n.ID] = fmt.Sprintf("%s@%d > %s", names[n.Parent], n.Offset, s.Names().At(n.Method).Name)
		}
		contexts[names[n.ID]] = n.Self
	}
	return contexts
}

// merged returns the merge of snapshots into an empty map.
func merged(t fataler, from ...*ccmap.Snapshot) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for _, s := range from {
		if err := m.Merge(s); err != nil {
			t.Fatal(err)
		}
	}
	mustBeValid(t, m)
	return m.Snapshot()
}

// TestMergeLaws checks that merging is associative and commutative, and that it
// is the same as folding the samples of both into one map.
func TestMergeLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var parts []*ccmap.Snapshot
		var p [3]*program
		for i := range p {
			p[i] = newProgram()
			p[i].run(t, 15)
			parts = append(parts, fold(t, p[i]).Snapshot())
		}
		a, b, c := parts[0], parts[1], parts[2]
		left := merged(t, merged(t, a, b), c)
		right := merged(t, a, merged(t, b, c))
		if d := cmp.Diff(byName(left), byName(right)); d != "" {
			t.Fatalf("not associative:\n%s", d)
		}
		if left.Total() != right.Total() || left.ActivationsExact() != right.ActivationsExact() {
			t.Fatal("totals are not associative")
		}
		if d := cmp.Diff(left.Meta(), right.Meta()); d != "" {
			t.Fatalf("Meta is not associative:\n%s", d)
		}
		if d := cmp.Diff(byName(merged(t, a, b)), byName(merged(t, b, a))); d != "" {
			t.Fatalf("not commutative:\n%s", d)
		}
		one := explicit{}
		for i := range p {
			for j, stack := range p[i].stacks {
				one.update(stack, p[i].samples[j].Weight, p[i].fresh[j])
			}
		}
		into := ccmap.New(ccmap.Options{Names: a.Names()})
		for _, s := range parts {
			if err := into.Merge(s); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(one, viewed(into.Snapshot())); d != "" {
			t.Fatalf("merge differs from folding all (-explicit +merged):\n%s", d)
		}
	})
}

// TestMergeUnifiesNames merges maps whose tables have other ids, and the map
// with itself.
func TestMergeUnifiesNames(t *testing.T) {
	t.Parallel()
	build := func(names ...string) *ccmap.Map {
		m := ccmap.New(ccmap.Options{})
		for _, name := range names {
			m.Names().Intern(ccmap.Method{Name: name, Signature: "()V"})
		}
		a, _ := m.Names().Lookup("A", "()V")
		b, _ := m.Names().Lookup("B", "()V")
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: b, Offset: 2}, {Method: a, Offset: 1}}, Weight: 1})
		return m
	}
	m := build("A", "B")
	if err := m.Merge(build("X", "B", "A").Snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := m.Merge(m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	mustBeValid(t, m)
	want := map[string]ccmap.Counters{
		"@4294967295 > A":         {},
		"@4294967295 > A@1 > B":   {},
		"@4294967295 > A@1 > B:2": {Samples: 4, Time: 4},
	}
	if d := cmp.Diff(want, byName(m.Snapshot())); d != "" {
		t.Errorf("contexts (-want +got):\n%s", d)
	}
}

func TestMergeMeta(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, second := ccmap.New(ccmap.Options{}), ccmap.New(ccmap.Options{})
	*second.Meta() = ccmap.Meta{
		Target:   ccmap.Target{PID: 7, Executable: "/bin/x"},
		Engine:   "perf",
		Start:    noon,
		Duration: time.Minute,
		Ended:    "stopped",
		Interval: []ccmap.IntervalChange{{Interval: time.Millisecond, Reason: "initial"}},
		Loss:     ccmap.Loss{Queue: 2, Orphaned: 1, Clock: time.Minute, Unaccounted: -time.Second},
		Known:    10, Repeated: 3,
		Pruned:   ccmap.PruneStats{Times: 1, Nodes: 9},
		Elided:   ccmap.Elided{Samples: 4, Least: 7, Most: 9, Uncounted: 1},
		Settled:  ccmap.Settled{Methods: 95, Samples: 10},
		Comments: []string{"one", "two"},
	}
	*first.Meta() = ccmap.Meta{
		Target:   ccmap.Target{PID: 8},
		Start:    noon.Add(time.Hour),
		Duration: time.Second,
		Interval: []ccmap.IntervalChange{{Interval: time.Second}, {At: time.Second, Interval: time.Minute}},
		Loss:     ccmap.Loss{Queue: 1, Clock: time.Second, Unaccounted: time.Millisecond},
		Pruned:   ccmap.PruneStats{Times: 2, Nodes: 3},
		Elided:   ccmap.Elided{Samples: 2, Least: 5, Most: 8},
		Comments: []string{"two"},
	}
	want := ccmap.Meta{
		Target:   ccmap.Target{PID: 8},
		Engine:   "perf",
		Start:    noon,
		Duration: time.Minute + time.Second,
		Ended:    "stopped",
		Interval: []ccmap.IntervalChange{
			{Interval: time.Millisecond, Reason: "initial"},
			{At: time.Hour, Interval: time.Second},
			{At: time.Hour + time.Second, Interval: time.Minute},
		},
		Loss:  ccmap.Loss{Queue: 3, Orphaned: 1, Clock: time.Minute + time.Second, Unaccounted: time.Millisecond - time.Second},
		Known: 10, Repeated: 3,
		Pruned:   ccmap.PruneStats{Times: 3, Nodes: 12},
		Elided:   ccmap.Elided{Samples: 6, Least: 5, Most: 9, Uncounted: 1},
		Comments: []string{"two", "one"},
	}
	if d := cmp.Diff(want, merged(t, first.Snapshot(), second.Snapshot()).Meta()); d != "" {
		t.Errorf("Meta (-want +got):\n%s", d)
	}
	// The other way round, only what is the first's differs.
	want.Target, want.Comments = second.Meta().Target, second.Meta().Comments
	if d := cmp.Diff(want, merged(t, second.Snapshot(), first.Snapshot()).Meta()); d != "" {
		t.Errorf("Meta, the later profile second (-want +got):\n%s", d)
	}
}

func TestMergeExactness(t *testing.T) {
	t.Parallel()
	exact, lower := ccmap.New(ccmap.Options{}), ccmap.New(ccmap.Options{})
	lower.SetExact(false)
	if !merged(t, exact.Snapshot(), exact.Snapshot()).ActivationsExact() {
		t.Error("two exact maps merge to a lower bound")
	}
	if merged(t, exact.Snapshot(), lower.Snapshot()).ActivationsExact() {
		t.Error("a lower bound merges to an exact map")
	}
}

// TestMergeWindows checks which window the merge of two maps has, and that recent
// counters add up.
func TestMergeWindows(t *testing.T) {
	t.Parallel()
	server := func(window time.Duration) *ccmap.Snapshot {
		m, a, _, _ := abc()
		m.SetWindow(window)
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: a}}, Time: 7, Weight: 1000})
		return m.Snapshot()
	}
	empty := func(window time.Duration) *ccmap.Snapshot {
		return ccmap.New(ccmap.Options{Window: window}).Snapshot()
	}
	for _, test := range []struct {
		name    string
		a, b    *ccmap.Snapshot
		window  time.Duration
		samples int64
	}{
		{"same", server(time.Minute), server(time.Minute), time.Minute, 2},
		{"different", server(time.Minute), server(time.Hour), 0, 0},
		{"one without", server(time.Minute), server(0), 0, 0},
		{"an empty one", server(time.Minute), empty(0), time.Minute, 1},
		{"an empty one with another", server(time.Minute), empty(time.Hour), time.Minute, 1},
	} {
		for _, s := range []*ccmap.Snapshot{merged(t, test.a, test.b), merged(t, test.b, test.a)} {
			recent, ok := s.Recent()
			if ok != (test.window != 0) || s.Meta().Window != test.window {
				t.Errorf("%s: window %v", test.name, s.Meta().Window)
			} else if ok && recent.Total() != (ccmap.Counters{Samples: test.samples, Time: 1000 * test.samples}) {
				t.Errorf("%s: %+v are recent", test.name, recent.Total())
			}
		}
	}
}
