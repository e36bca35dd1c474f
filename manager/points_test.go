package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
)

// TestPointsAreKeptOnceASecond: readers who ask all the time get new points at
// most that often, and all of them in the end.
func TestPointsAreKeptOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range 320 {
				r.Push(hitOf(stack(names, "leaf", "root")))
				time.Sleep(10 * time.Millisecond)
			}
			r.Publish()
			time.Sleep(3 * time.Second)
		})
		m := s.mustStart(t)
		done := make(chan Report)
		go func() {
			r, _ := m.Run(t.Context())
			done <- r
		}()
		counts := make(map[int64]bool)
		var last int64
		for range 6000 {
			for _, p := range m.Snapshot().Points() {
				counts[p.Count], last = true, p.Count
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(counts); n < 3 || n > 6 || last != 320 {
			t.Errorf("%d new sets of points in six seconds, the last of %d samples", n, last)
		}
		r := <-done
		if got := callsOf(t, r.Snapshot); len(got) != 1 {
			t.Errorf("points in the end: %v", got)
		}
	})
}

// TestPointsInTheEnd: the last snapshot has all, whenever points were kept last.
func TestPointsInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 100
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range calls {
				r.Push(hitOf(stack(names, "leaf", "root")))
				time.Sleep(10 * time.Millisecond)
			}
		})
		m := s.mustStart(t)
		go func() {
			for range 100 {
				m.Snapshot()
				time.Sleep(10 * time.Millisecond)
			}
		}()
		r, err := m.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := int64(0)
		for _, n := range callsOf(t, r.Snapshot) {
			got += n
		}
		if got != calls {
			t.Errorf("points have %d calls of %d", got, calls)
		}
	})
}
