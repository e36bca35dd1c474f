package ccmap

import (
	"math"
	"slices"
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
		{"outermost", "not an outermost frame", func(m *Map) { m.at(1).offset = 3 }},
		{"position of the root", "not an outermost frame", func(m *Map) { m.at(1).method = NoMethod }},
		{"child of a position", "below the position", func(m *Map) { m.at(4).parent = 3 }},
		{"unknown position", "unknown position", func(m *Map) { m.at(3).offset = NoOffset }},
		{"called position", "has activations", func(m *Map) { m.columns.writable(3).activations++ }},
		{"method", "has method", func(m *Map) { m.at(2).method = 77 }},
		{"negative time", "negative", func(m *Map) { m.columns.writable(2).time = -1 }},
		{"total", "add up", func(m *Map) { m.total.Samples++ }},
		{"duplicate", "is found as", func(m *Map) { m.append(*m.at(2)) }},
		{"lost entry", "is found as", func(m *Map) { clear(m.table.parts[0].slots) }},
		{"entry too many", "entries", func(m *Map) { m.table.insert(1, *m.at(1)) }},
		{"known stack", "is not where", func(m *Map) { m.stacks.remember(stackID{hash: 1, depth: 1}, 2, func() int64 { return 1 << 10 }) }},
		{"node of a known stack", "counts at node 99", func(m *Map) { m.stacks.remember(stackID{hash: 1, depth: 1}, 99, func() int64 { return 1 << 10 }) }},
		{"number of known stacks", "counted as 1", func(m *Map) { m.stacks.used++ }},
		{"chunks of recent counters", "recent counters", func(m *Map) { m.recent.grow() }},
		{"endless", "recent counters", func(m *Map) { m.recent.chunks[0].cells[3].time = float32(math.Inf(1)) }},
		{"negative recent", "recent counters", func(m *Map) { m.countDue(); m.recent.chunks[0].cells[3].samples = -1 }},
		{"recent only", "recent counters only", func(m *Map) { m.recent.chunks[0].cells[1].time = 1 }},
		{"pruned site", "has a call site", func(m *Map) { m.Child(1, 0, PrunedID); m.at(5).offset = 1 }},
		{"called pruned", "has activations", func(m *Map) {
			m.columns.writable(m.Child(1, 0, PrunedID)).activations++
		}},
		{"child of pruned", "is below node", func(m *Map) {
			m.child(node{1, 0, m.Child(1, 0, PrunedID)})
		}},
		{"evicted edge of no method", "pruned edge", func(m *Map) { m.evicted.edge(edgeKey{Caller: 0, Site: 1, Callee: 77}) }},
		{"evicted edge of nothing", "pruned edge", func(m *Map) { m.evicted.edge(edgeKey{Caller: NoMethod, Site: 1, Callee: NoMethod}) }},
		{"negative evicted edge", "pruned edge", func(m *Map) { m.evicted.edges[m.evicted.edge(edgeKey{Caller: 0, Site: 1, Callee: 1})].total.Time = -1 }},
		{"negative evicted method", "pruned method", func(m *Map) { m.evicted.method(1).recentSelf.time = -1 }},
		{"unknown pruned method", "pruned method", func(m *Map) { m.evicted.method(99) }},
		{"order of points", "does not come before", func(m *Map) { slices.Reverse(m.points.list) }},
		{"point twice", "does not come before", func(m *Map) { m.points.list[1] = m.points.list[0] }},
		{"origin of a point", "point 0: it is of cached, call", func(m *Map) { m.points.list[0].Origin = 4 }},
		{"kind of a point", "kind 7", func(m *Map) { m.points.list[1].Kind = 7 }},
		{"method of a point", "method 9 of 7", func(m *Map) { m.points.list[1].Method = 9 }},
		{"end of a call", "ends at", func(m *Map) { m.points.list[0].End = 9 }},
		{"callers of a point", "4 callers", func(m *Map) { m.points.list[0].Callers = make([]Frame, 4) }},
		{"caller of a point", "caller 7 of 7", func(m *Map) { m.points.list[0].Callers = []Frame{{7, 1}} }},
		{"order of values", "no order", func(m *Map) { m.points.list[0].Values[1].Count = 9 }},
		{"value twice", "stands twice", func(m *Map) { m.points.list[0].Values[1].Value = 1 }},
		{"value unseen", "counts 0", func(m *Map) { m.points.list[0].Values[1].Count = 0 }},
		{"target", "reaches method 9 of 7", func(m *Map) { m.points.list[0].Values[1].Value = 9 }},
		{"branch", "a branch to 2", func(m *Map) { m.points.list[1].Values[0].Value = 2 }},
		{"count of a point", "add up to", func(m *Map) { m.points.list[0].Count++ }},
		{"negative count of a point", "negative counts", func(m *Map) { m.points.list[0].Nulls = -3 }},
		{"block with values", "a block with values", func(m *Map) { m.points.list[1].Kind = PointBlock }},
		{"null of a branch", "a branch with nulls", func(m *Map) { m.points.list[1].Nulls, m.points.list[1].Count = 1, 2 }},
		{"activations of evicted edges", "add up", func(m *Map) {
			m.evicted.edges[m.evicted.edge(edgeKey{Caller: 0, Site: 1, Callee: 1})].total.Activations = 1
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := New(Options{Seed: 1, Window: time.Minute})
			a := m.names.Intern(Method{Name: "A"})
			b := m.names.Intern(Method{Name: "B"})
			m.Fold(&Sample{Frames: []Frame{{b, 1}, {a, 1}}})
			m.Fold(&Sample{Frames: []Frame{{a, NoOffset}, {b, 1}, {a, 1}}})
			m.AddPoint(Point{Offset: 3, Nulls: NullsUnknown, Values: []PointValue{{1, 3}, {0, 2}}})
			m.AddPoint(Point{Kind: PointBranch, Offset: 3, End: 5, Values: []PointValue{{1, 1}}})
			m.points.all()
			test.damage(m)
			err := m.CheckValid()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("CheckValid() = %v, want %q", err, test.want)
			}
		})
	}
}
