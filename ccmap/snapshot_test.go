package ccmap_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
)

// TestSnapshotIsFrozen checks that folding on changes no snapshot.
func TestSnapshotIsFrozen(t *testing.T) {
	t.Parallel()
	g := newCallGraph(50)
	m := ccmap.New(ccmap.Options{Names: g.names})
	var snapshots []*ccmap.Snapshot
	var before []map[string]ccmap.Counters
	for range 5 {
		m.FoldBatch(g.stacks(100, 1, 30))
		m.Meta().Comments = append(m.Meta().Comments, "another batch")
		snapshots = append(snapshots, m.Snapshot())
		before = append(before, byName(m.Snapshot()))
	}
	for i, s := range snapshots {
		if d := cmp.Diff(before[i], byName(s)); d != "" {
			t.Errorf("snapshot %d changed:\n%s", i, d)
		}
		if got, want := s.Total().Samples, int64(100*(i+1)); got != want {
			t.Errorf("snapshot %d has %d samples, want %d", i, got, want)
		}
		if got := len(s.Meta().Comments); got != i+1 {
			t.Errorf("snapshot %d has %d comments", i, got)
		}
		mustBeValid(t, s)
	}
}

// TestSnapshotHammer lets readers walk snapshots, two at a time the same, while
// the writer folds and publishes. The race detector sees what is shared.
func TestSnapshotHammer(t *testing.T) {
	t.Parallel()
	g := newCallGraph(200)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	batches := make([][]ccmap.Sample, rounds)
	for i := range batches {
		batches[i] = g.stacks(50, 5, 40)
	}
	var latest atomic.Pointer[ccmap.Snapshot]
	m := ccmap.New(ccmap.Options{Names: g.names})
	latest.Store(m.Snapshot())
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := false; !last; {
				last = done.Load()
				read(t, latest.Load())
			}
		})
	}
	for i, batch := range batches {
		m.FoldBatch(batch)
		m.Meta().Known++
		m.SetPoints(ccmap.OriginBurst, []ccmap.Point{{Offset: uint32(i), Count: 1, Values: []ccmap.PointValue{{Value: 3, Count: 1}}}})
		latest.Store(m.Snapshot())
		if i%20 == 19 {
			if err := m.Merge(latest.Load()); err != nil {
				t.Error(err)
			}
		}
	}
	done.Store(true)
	readers.Wait()
	mustBeValid(t, m)
}

// read walks a snapshot and checks sums that hold at every moment.
func read(t *testing.T, s *ccmap.Snapshot) {
	if err := s.CheckValid(); err != nil {
		t.Error(err)
	}
	if got, want := s.Inclusive(0).Samples, s.Total().Samples; got != want {
		t.Errorf("%d samples below the root, want %d", got, want)
	}
	var self int64
	for p := range s.Methods() {
		self += p.Self().Samples
		for e := range p.Callers() {
			var contexts int64
			for r := range e.Contexts() {
				contexts += r.Total().Samples
			}
			if contexts > e.Total().Samples {
				t.Errorf("contexts have %d samples of %d", contexts, e.Total().Samples)
			}
		}
	}
	if self != s.Total().Samples {
		t.Errorf("methods have %d samples of their own, want %d", self, s.Total().Samples)
	}
}
