package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
)

// heat runs a session in which root calls warm for 1 s and then hot for 2 s of
// CPU time, and returns the events by the name of the method.
func heat(t *testing.T, limit Thresholds) map[string]Event {
	t.Helper()
	events := make(map[string]Event)
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
		for i := range 3000 {
			leaf := "hot"
			if i < 1000 {
				leaf = "warm"
			}
			r.Push(stack(names, leaf, "root"))
			time.Sleep(time.Millisecond)
		}
	})
	s.config.Hot = limit
	s.config.OnHot = func(e Event) {
		name := s.config.Map.Names().At(e.Method).Name
		if _, twice := events[name]; twice {
			t.Errorf("%s was raised twice", name)
		}
		events[name] = e
	}
	s.mustRun(t)
	return events
}

func TestMethodsBecomeHot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := 1500 * time.Millisecond
		events := heat(t, Thresholds{Method: limit})
		for _, name := range []string{"root", "hot"} {
			e, ok := events[name]
			got := time.Duration(e.Counters.Time)
			if late := limit/lateStep + 2*defaultPublishEvery; !ok || got < limit || got > limit+late {
				t.Errorf("%s was raised at %v, want %v", name, got, limit)
			}
			if ok && (e.Caller != ccmap.NoMethod || e.Snapshot.Total().Time < int64(limit)) {
				t.Errorf("event of %s: %+v", name, e)
			}
		}
		if len(events) != 2 {
			t.Errorf("%d events, want 2", len(events))
		}
	})
}

func TestEdgesBecomeHot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := 500 * time.Millisecond
		events := heat(t, Thresholds{Edge: limit})
		for _, name := range []string{"warm", "hot"} {
			e, ok := events[name]
			if !ok || e.Offset != 2 || e.Counters.Time < int64(limit) {
				t.Errorf("event of root calling %s: %+v", name, e)
			}
			if caller := e.Snapshot.Names().At(e.Caller).Name; caller != "root" {
				t.Errorf("%s was called by %s", name, caller)
			}
		}
		if len(events) != 2 {
			t.Errorf("%d events, want 2", len(events))
		}
	})
}

// TestHotAtTheEnd checks that a method that becomes hot in the last turn raises an
// event, although that turn comes too early for a look.
func TestHotAtTheEnd(t *testing.T) {
	t.Parallel()
	raised := 0
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
		r.Push(stack(names, "leaf"))
	})
	s.config.Hot = Thresholds{Method: time.Millisecond}
	s.config.OnHot = func(Event) { raised++ }
	s.mustRun(t)
	if raised != 1 {
		t.Errorf("%d events, want 1", raised)
	}
}

func TestNothingBecomesHotBelowTheThreshold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if events := heat(t, Thresholds{Method: time.Hour, Edge: time.Hour}); len(events) != 0 {
			t.Errorf("events %v", events)
		}
	})
}
