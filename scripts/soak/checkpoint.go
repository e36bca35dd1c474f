package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	leastCoverage  = 0.95
	mostHeapGrowth = 1.1
)

// checkpoint is what was found at one moment.
type checkpoint struct {
	at       time.Duration // on the program's clock
	folded   int64
	made     int // stacks of the synthetic program
	prunes   ccmap.PruneStats
	nodes    int
	bytes    int64
	pruned   float64 // share of the map's time that hangs at [pruned]
	coverage coverage
	heap     int64 // bytes of live objects, all that the soak itself needs among them
}

// checkpoint checks all that must hold.
func (s *soak) checkpoint(at time.Duration) error {
	if err := s.m.CheckValid(); err != nil {
		return err
	}
	snapshot := s.m.Snapshot()
	if err := s.ledger.check(snapshot, s.stacks()); err != nil {
		return err
	}
	found, err := s.checkWindow(snapshot)
	if err != nil {
		return err
	}
	c := checkpoint{
		at: at, folded: s.folded, made: s.program.made,
		prunes: snapshot.Meta().Pruned, nodes: snapshot.Len(), bytes: s.m.Bytes(),
		pruned:   float64(snapshot.PrunedTotal().Time) / float64(snapshot.Total().Time),
		coverage: found,
	}
	snapshot, s.truth = nil, nil
	if err := s.reader.release(); err != nil {
		return err
	}
	c.heap = heap()
	if c.prunes.Times > 0 {
		s.beside = append(s.beside, c.heap-c.bytes)
	}
	if got := runtime.NumGoroutine(); got != s.goroutines {
		return fmt.Errorf("%d goroutines, %d at the start", got, s.goroutines)
	}
	s.report(c)
	return nil
}

// checkWindow compares the hottest contexts of the window with the truth's.
func (s *soak) checkWindow(snapshot *ccmap.Snapshot) (coverage, error) {
	window, ok := snapshot.Recent()
	if !ok {
		return coverage{}, fmt.Errorf("map has no window")
	}
	truth, _ := s.truth.Snapshot().Recent()
	c := covers(window, truth)
	if c.hot < leastCoverage || c.top < leastCoverage {
		return c, fmt.Errorf("of the window's contexts %.1f %% at tau = %g and %.1f %% of the top %d are covered, want %.0f %%",
			100*c.hot, tau, 100*c.top, topContexts, 100*leastCoverage)
	}
	return c, nil
}

// checkHeap checks that what the heap holds beside the map has not grown since
// the map first pruned.
func (s *soak) checkHeap() error {
	third := len(s.beside) / 3
	if third == 0 {
		return nil
	}
	before, after := median(s.beside[:third]), median(s.beside[len(s.beside)-third:])
	if float64(after) > mostHeapGrowth*float64(before) {
		return fmt.Errorf("heap beside the map has grown from %d bytes to %d", before, after)
	}
	return nil
}

func median(v []int64) int64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// heap returns the bytes of live objects.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
