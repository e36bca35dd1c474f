package ccmap_test

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestInclusive compares the sums of runs with those added up node by node, over
// several chunks, where inner nodes count too and counts have overflowed.
func TestInclusive(t *testing.T) {
	t.Parallel()
	g := newCallGraph(100)
	m := ccmap.New(ccmap.Options{Names: g.names})
	mustMatchPlainSums(t, m.Snapshot())
	m.FoldBatch(g.stacks(500, 1, 30))
	mustMatchPlainSums(t, m.Snapshot())
	for n := 1; n < m.Len(); n += 7 {
		m.Add(ccmap.NodeID(n), ccmap.Counters{Time: int64(n)})
		m.Add(ccmap.NodeID(n), ccmap.Counters{Samples: 1 << 32 * int64(n%2)})
	}
	mustMatchPlainSums(t, m.Snapshot())
}

func mustMatchPlainSums(t *testing.T, s *ccmap.Snapshot) {
	t.Helper()
	want := make([]ccmap.Counters, s.Len())
	for n := range s.Nodes() {
		want[n.ID] = n.Self
	}
	for id := ccmap.NodeID(s.Len() - 1); id > 0; id-- {
		up := &want[s.Node(id).Parent]
		up.Samples += want[id].Samples
		up.Time += want[id].Time
	}
	for id, w := range want {
		if got := s.Inclusive(ccmap.NodeID(id)); got != w {
			t.Fatalf("node %d of %d has %+v, want %+v", id, s.Len(), got, w)
		}
	}
}
