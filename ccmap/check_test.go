package ccmap

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestCheckValid breaks one invariant at a time.
func TestCheckValid(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		damage     func(m *Map)
	}{
		{"nothing", "", func(*Map) {}},
		{"root", "not a root", func(m *Map) { m.at(0).method = 0 }},
		{"length", "chunks", func(m *Map) { m.nodes.len = chunkLen }},
		{"chunks of counters", "chunks", func(m *Map) { m.columns.grow() }},
		{"parent", "has parent", func(m *Map) { m.at(2).parent = 2 }},
		{"outermost", "no outermost frame", func(m *Map) { m.at(1).offset = 3 }},
		{"position of the root", "no outermost frame", func(m *Map) { m.at(1).method = NoMethod }},
		{"child of a position", "below the position", func(m *Map) { m.at(4).parent = 3 }},
		{"unknown position", "unknown position", func(m *Map) { m.at(3).offset = NoOffset }},
		{"called position", "has activations", func(m *Map) { m.columns.addActivation(3) }},
		{"method", "has method", func(m *Map) { m.at(2).method = 77 }},
		{"negative time", "negative", func(m *Map) { m.columns.writable(2).time = -1 }},
		{"total", "add up", func(m *Map) { m.total.Samples++ }},
		{"duplicate", "is found as", func(m *Map) { m.append(*m.at(2)) }},
		{"lost entry", "is found as", func(m *Map) { clear(m.table.parts[0].slots) }},
		{"entry too many", "entries", func(m *Map) { m.table.insert(1, *m.at(1)) }},
		{"chunks of recent counters", "recent counters", func(m *Map) { m.recent.grow() }},
		{"endless", "recent counters", func(m *Map) { m.recent.chunks[0].cells[3].time = float32(math.Inf(1)) }},
		{"negative recent", "recent counters", func(m *Map) { m.recent.chunks[0].cells[3].samples = -1 }},
		{"recent only", "recent counters only", func(m *Map) { m.recent.chunks[0].cells[1].time = 1 }},
		{"pruned site", "has a call site", func(m *Map) { m.Child(1, 0, m.names.Intern(Method{Name: PrunedName})); m.at(5).offset = 1 }},
		{"called pruned", "has activations", func(m *Map) {
			m.columns.addActivation(m.Child(1, 0, m.names.Intern(Method{Name: PrunedName})))
		}},
		{"child of pruned", "is below node", func(m *Map) {
			m.child(node{1, 0, m.Child(1, 0, m.names.Intern(Method{Name: PrunedName}))})
		}},
		{"base of no method", "pruned edge", func(m *Map) { m.bases.edge(edgeKey{0, 1, 7}) }},
		{"base of nothing", "pruned edge", func(m *Map) { m.bases.edge(edgeKey{NoMethod, 1, NoMethod}) }},
		{"negative base", "pruned edge", func(m *Map) { m.bases.edges[m.bases.edge(edgeKey{0, 1, 1})].total.Time = -1 }},
		{"negative base of a method", "pruned method", func(m *Map) { m.bases.method(1).recentSelf.time = -1 }},
		{"unknown pruned method", "pruned method", func(m *Map) { m.bases.method(9) }},
		{"activations of bases", "add up", func(m *Map) { m.bases.edges[m.bases.edge(edgeKey{0, 1, 1})].total.Activations = 1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := New(Options{Seed: 1, Window: time.Minute})
			a := m.names.Intern(Method{Name: "A"})
			b := m.names.Intern(Method{Name: "B"})
			m.Fold(&Sample{Frames: []Frame{{b, 1}, {a, 1}}})
			m.Fold(&Sample{Frames: []Frame{{a, NoOffset}, {b, 1}, {a, 1}}})
			test.damage(m)
			err := m.CheckValid()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("CheckValid() = %v, want %q", err, test.want)
			}
		})
	}
}
