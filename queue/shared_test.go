package queue

import (
	"slices"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestShared: many producers push into one ring at once. Each one's samples come in their order, and none is lost
// or counted twice.
func TestShared(t *testing.T) {
	t.Parallel()
	const producers, pushes = 100, 50
	q := New(Options{RingWords: 1 << 17})
	s := q.Shared()
	var running sync.WaitGroup
	for thread := range uint64(producers) {
		running.Go(func() {
			for at := range int64(pushes) {
				if !s.Push(&ccmap.Sample{Thread: thread, Time: at, Frames: make([]ccmap.Frame, thread%7)}) {
					t.Errorf("sample %d of %d was dropped", at, thread)
				}
			}
		})
	}
	running.Wait()
	s.Publish()
	got := make(map[uint64][]int64)
	q.Drain(func(s *ccmap.Sample) { got[s.Thread] = append(got[s.Thread], s.Time) })
	for thread, times := range got {
		if len(times) != pushes || !slices.IsSorted(times) {
			t.Errorf("of %d: %v", thread, times)
		}
	}
	s.Close()
	if s.Close(); s.Push(&ccmap.Sample{}) {
		t.Error("a closed ring takes a sample")
	}
	checkStats(t, q, Stats{Pushed: producers*pushes + 1, Delivered: producers * pushes, Dropped: 1, Rings: 1})
}
