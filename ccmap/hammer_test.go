package ccmap_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestPruneHammer lets readers go through snapshots, two at a time the same, and
// merge them into maps of their own, while the writer prunes all the time. The
// race detector sees what is shared.
func TestPruneHammer(t *testing.T) {
	t.Parallel()
	g := newCallGraph(100)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	m := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: 160 << 10, Window: time.Second})
	var latest atomic.Pointer[ccmap.Snapshot]
	latest.Store(m.Snapshot())
	var done atomic.Bool
	var readers sync.WaitGroup
	for reader := range 8 {
		readers.Go(func() {
			own := ccmap.New(ccmap.Options{MaxBytes: 100 << 10})
			for last := false; !last; {
				last = done.Load()
				s := latest.Load()
				switch reader % 3 {
				case 0:
					readPruned(t, s)
				case 1:
					readRecent(t, s)
				case 2:
					mergeInto(t, own, s)
				}
			}
		})
	}
	now := int64(0)
	for round := range rounds {
		for _, s := range g.stacks(80, 5, 40) {
			now += 1e6
			s.Time = now
			m.Fold(&s)
		}
		now += int64(round%7) * 1e9
		m.Advance(now)
		latest.Store(m.Snapshot())
	}
	done.Store(true)
	readers.Wait()
	mustBeValid(t, m)
	if times := m.Meta().Pruned.Times; times < uint64(rounds)/10 {
		t.Errorf("pruned %d times only", times)
	}
}

func readPruned(t *testing.T, s *ccmap.Snapshot) {
	read(t, s)
	for e := range s.PrunedEdges() {
		path := []ccmap.PathElem{{Method: e.Caller, Site: e.Offset}, {Method: e.Callee}}
		if e.Caller != ccmap.NoMethod && e.Callee != ccmap.NoMethod && s.Ref(path).Samples < e.Total.Samples {
			t.Errorf("edge %+v has %+v", e, s.Ref(path))
		}
	}
}

func readRecent(t *testing.T, s *ccmap.Snapshot) {
	recent, ok := s.Recent()
	if !ok {
		t.Error("no window")
		return
	}
	if err := recent.CheckValid(); err != nil {
		t.Error(err)
	}
	var self, slack int64
	for p := range recent.Methods() {
		self += p.Self().Samples
		slack++
	}
	if got := recent.Total().Samples; self < got-slack || self > got+slack {
		t.Errorf("methods have %d recent samples of their own, want %d", self, got)
	}
}

func mergeInto(t *testing.T, own *ccmap.Map, s *ccmap.Snapshot) {
	before := own.Snapshot().Total()
	if err := own.Merge(s); err != nil {
		t.Error(err)
	}
	if err := own.CheckValid(); err != nil {
		t.Error(err)
	}
	if got, want := own.Snapshot().Total(), before.Add(s.Total()); got != want {
		t.Errorf("merged to %+v, want %+v", got, want)
	}
}
