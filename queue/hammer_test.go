package queue

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Many producers open, fill and close rings that are far too small, while the
// consumer stalls again and again: every sample offered is delivered unharmed
// and in its ring's order, or counted as dropped.
func TestHammer(t *testing.T) {
	t.Parallel()
	const producers = 24
	lives, pushes := 40, 300
	if testing.Short() {
		lives = 8
	}
	h := &hammer{queue: New(Options{RingWords: 512}), last: make(map[uint64]int64)}

	var running sync.WaitGroup
	for p := range producers {
		running.Go(func() {
			for life := range lives {
				h.produce(uint64(p*lives+life), pushes)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	h.consume(t, done)

	s := h.queue.Stats()
	offered := uint64(producers * lives * pushes)
	if s.Pushed != offered || s.Pushed != s.Delivered+s.Dropped || s.Delivered != h.delivered || s.Dropped != h.refused.Load() {
		t.Errorf("%d offered, %d refused, %d received, but %+v", offered, h.refused.Load(), h.delivered, s)
	}
	if s.Dropped == 0 || s.Delivered == 0 {
		t.Errorf("the stalls did not both fill and empty the rings: %+v", s)
	}
	if s.Rings > producers {
		t.Errorf("%d rings made for %d producers", s.Rings, producers)
	}
}

type hammer struct {
	queue   *Queue
	offered atomic.Uint64
	refused atomic.Uint64

	// The consumer's own.
	last      map[uint64]int64 // Time last seen of each Thread
	delivered uint64
}

// produce is one life of a producer: a ring of its own, under its own name.
func (h *hammer) produce(thread uint64, pushes int) {
	rng := rand.New(rand.NewPCG(thread, 0))
	r := h.queue.Ring()
	defer r.Close()
	frames := make([]ccmap.Frame, 40)
	for i := range pushes {
		s := ccmap.Sample{Thread: thread, Time: int64(i + 1), Frames: frames[:1+rng.IntN(40)]}
		for f := range s.Frames {
			s.Frames[f] = expectedFrame(&s, f)
		}
		if !r.Push(&s) {
			h.refused.Add(1)
		}
		h.offered.Add(1)
		if rng.IntN(50) == 0 {
			r.Publish()
			runtime.Gosched()
		}
	}
}

func expectedFrame(s *ccmap.Sample, f int) ccmap.Frame {
	return ccmap.Frame{Method: ccmap.MethodID(s.Thread), Offset: uint32(s.Time)<<8 | uint32(f)}
}

// consume drains until the producers are done, stalling between drains for as
// long as they take to offer a thousand samples more.
func (h *hammer) consume(t *testing.T, done <-chan struct{}) {
	receive := func(s *ccmap.Sample) { h.receive(t, s) }
	for over := false; !over; {
		select {
		case <-h.queue.Ready():
		case <-done:
			over = true
		}
		h.queue.Drain(receive)
		if s := h.queue.Stats(); s.Delivered+s.Dropped > s.Pushed {
			t.Errorf("more came out than went in: %+v", s)
		}
		for target := h.offered.Load() + 1000; !over && h.offered.Load() < target; {
			select {
			case <-done:
				target = 0
			default:
				runtime.Gosched()
			}
		}
	}
	h.queue.Drain(receive)
}

func (h *hammer) receive(t *testing.T, s *ccmap.Sample) {
	h.delivered++
	if s.Time <= h.last[s.Thread] {
		t.Errorf("thread %d: sample %d after %d", s.Thread, s.Time, h.last[s.Thread])
	}
	h.last[s.Thread] = s.Time
	for f, got := range s.Frames {
		if want := expectedFrame(s, f); got != want {
			t.Errorf("thread %d, sample %d, frame %d: %v, want %v", s.Thread, s.Time, f, got, want)
		}
	}
}

// A consumer that only ever waits for Ready misses nothing.
func TestReadyMissesNothing(t *testing.T) {
	t.Parallel()
	const producers, pushes = 4, 5000
	q := New(Options{Batch: 1})
	answer := make([]chan struct{}, producers)
	var running sync.WaitGroup
	for p := range producers {
		answer[p] = make(chan struct{}, 1)
		running.Go(func() {
			r := q.Ring()
			defer r.Close()
			for range pushes {
				r.Push(&ccmap.Sample{Thread: uint64(p), Frames: make([]ccmap.Frame, 1)})
				<-answer[p] // a lost wake-up blocks here for good
			}
		})
	}
	for got := 0; got < producers*pushes; {
		<-q.Ready()
		got += q.Drain(func(s *ccmap.Sample) { answer[s.Thread] <- struct{}{} })
	}
	running.Wait()
}
