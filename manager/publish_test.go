package manager

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

func TestSnapshotIsPublishedOnDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			r.Push(stack(names, "leaf"))
			r.Publish()
			time.Sleep(10 * time.Second)
		})
		m := s.mustStart(t)
		var done sync.WaitGroup
		done.Go(func() { m.Run(t.Context()) })
		defer done.Wait()

		time.Sleep(5 * time.Second)
		first := m.Snapshot()
		if n := first.Total().Samples; n != 0 {
			t.Errorf("%d samples were published without a reader", n)
		}
		time.Sleep(time.Second)
		second := m.Snapshot()
		if n := second.Total().Samples; n != 1 {
			t.Errorf("%d samples a second after a reader had asked, want 1", n)
		}
		time.Sleep(time.Second)
		if m.Snapshot() != second {
			t.Error("an unchanged map was published again")
		}
	})
}

func TestSnapshotsAreRateLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(pushForASecond)
		m := s.mustStart(t)
		var done sync.WaitGroup
		done.Go(func() { m.Run(t.Context()) })
		defer done.Wait()

		seen := make(map[*ccmap.Snapshot]bool)
		for range 900 {
			seen[m.Snapshot()] = true
			time.Sleep(time.Millisecond)
		}
		if n := len(seen); n < 5 || n > 11 {
			t.Errorf("%d snapshots in 900 ms, want about 9", n)
		}
	})
}

func TestStatusFollowsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			one := stack(names, "leaf", "root")
			one.Top = ccmap.TopRepeated
			r.Push(one)
			r.Push(&ccmap.Sample{})
			r.Push(hitOf(stack(names, "leaf", "root")))
			r.Publish()
			time.Sleep(10 * time.Second)
		})
		s.source.stats.Threads = 3
		s.source.stats.Loss.Source = 9
		m := s.mustStart(t)
		var done sync.WaitGroup
		done.Go(func() { m.Run(t.Context()) })
		defer done.Wait()

		time.Sleep(5 * time.Second)
		got := m.Status()
		want := Status{
			Elapsed: got.Elapsed, Samples: 2, Caught: 1, Sampled: time.Millisecond, Known: 1, Repeated: 1,
			Interval: 10 * time.Millisecond, Loss: ccmap.Loss{Source: 9, Corrupt: 1}, Threads: 3,
			Nodes: s.nodesOf("leaf", "root"), Bytes: got.Bytes,
		}
		if got != want || got.Elapsed < 4*time.Second || got.Bytes <= 0 {
			t.Errorf("status %+v\nwant   %+v", got, want)
		}
	})
}

// nodesOf returns how many nodes a map with this one stack has.
func (s *session) nodesOf(methods ...string) int {
	m := ccmap.New(ccmap.Options{})
	m.Fold(stack(m.Names(), methods...))
	return m.Len()
}

// TestHammer has producers, readers of snapshots and of the status at work at
// once. Every snapshot must be valid and none may go back.
func TestHammer(t *testing.T) {
	t.Parallel()
	hammer(t, ccmap.Options{Seed: 1})
}

// TestHammerWithinBudget has a map that is pruned all the time, with a window.
func TestHammerWithinBudget(t *testing.T) {
	t.Parallel()
	r := hammer(t, ccmap.Options{Seed: 1, MaxBytes: 64 << 10, Window: time.Second})
	if r.Snapshot.Meta().Pruned.Times == 0 {
		t.Error("the map was never pruned")
	}
	var self int64
	for m := range r.Snapshot.Methods() {
		self += m.Self().Samples
	}
	if total := r.Snapshot.Total().Samples; self != total {
		t.Errorf("methods have %d of %d samples", self, total)
	}
}

func hammer(t *testing.T, o ccmap.Options) Report {
	t.Helper()
	const producers, perProducer = 4, 5_000
	s := newSessionOf(o, nil)
	s.config.PublishEvery = time.Microsecond
	s.source.run = func(context.Context) (sampler.Ending, error) {
		var all sync.WaitGroup
		for i := range producers {
			all.Go(func() { produce(s.config.Queue.Ring(), s.config.Map.Names(), i, perProducer) })
		}
		all.Wait()
		return sampler.Ending{Reason: "done"}, nil
	}
	m := s.mustStart(t)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			if err := readUntil(ctx, m); err != nil {
				t.Error(err)
			}
		})
	}
	r, err := m.Run(ctx)
	cancel()
	readers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	got := r.Queue.Delivered + r.Queue.Dropped
	if got != producers*perProducer || uint64(r.Snapshot.Total().Samples)+r.Values.Caught != r.Queue.Delivered {
		t.Errorf("%+v, %d samples and %d hits in the map; pushed %d",
			r.Queue, r.Snapshot.Total().Samples, r.Values.Caught, producers*perProducer)
	}
	if err := r.Snapshot.CheckValid(); err != nil {
		t.Error(err)
	}
	return r
}

// produce pushes samples of stacks that share a part, and have many leaves. One in
// ten is a hit.
func produce(r *queue.Ring, names *ccmap.Names, id, n int) {
	defer r.Close()
	methods := []string{"a", "b", "c", "d", "e", "f"}
	for i := range n {
		one := stack(names, methods[i%3], methods[3+i%2], methods[(id+i)%6], "root")
		one.Frames[0].Offset = uint32(i)
		one.Time = monotonic()
		one.Thread = uint64(id)
		if i%10 == 0 {
			hitOf(one)
		}
		r.Push(one)
	}
}

// readUntil reads until the context is done, and at least twice.
func readUntil(ctx context.Context, m *Manager) error {
	var last int64
	for reads := 0; reads < 2 || ctx.Err() == nil; reads++ {
		s := m.Snapshot()
		if err := s.CheckValid(); err != nil {
			return err
		}
		if recent, ok := s.Recent(); ok && recent.Total().Samples > s.Total().Samples {
			return errors.New("the window has more samples than the whole run")
		}
		n := s.Total().Samples
		if n < last {
			return errors.New("a newer snapshot has fewer samples")
		}
		last = n
		m.Status()
	}
	return nil
}
