package managed

import (
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/ccmapd/ccmapd/queue"
)

// seat is the profiler's part of an attached thread. It does not hold the [Thread]
// itself, so that a forgotten thread is collected, and its ring goes on to another.
//
//	among, thread      written once
//	cells              the thread's, or under mu while it is parked
//	ring, left         under mu, which the thread takes to push and the marker to
//	                   publish for a thread at rest
//	unpublished        set by the thread under mu, cleared when publishing
//	parked, reached    written by the thread, read by the marker
//	sweep              the marker's own
//	index              under the lock of the seats that it is among
//
// Only this package's code runs while a lock is held.
type seat struct {
	among  *seats
	thread weak.Pointer[Thread] // if it has a hook
	cells  *cells

	mu   sync.Mutex
	ring *queue.Ring // nil before the first sample and after the last one
	left bool        // no more samples

	unpublished atomic.Bool
	parked      atomic.Bool
	reached     atomic.Uint32 // epoch at the last marked safe point
	sweep       lastSweep
	index       int
}

// lastSweep is the marker's last look at a thread.
type lastSweep struct {
	reached uint32
	since   time.Time // last known safe point, at the earliest; zero: none is due
}

// publish makes the thread's pushed samples visible to the queue's consumer.
func (s *seat) publish() {
	if !s.unpublished.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpublished.Store(false)
	if s.ring != nil {
		s.ring.Publish()
	}
}

// unpark lets the thread go on. If the marker may have its cells, it waits for the marker.
func (s *seat) unpark(shared bool) {
	if shared {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	s.parked.Store(false)
}

// leave publishes, gives up the ring and removes the seat. It reports whether the thread
// was still attached.
func (s *seat) leave() bool {
	s.mu.Lock()
	was := s.left
	s.left = true
	s.closeRing()
	s.mu.Unlock()
	if !was {
		s.among.remove(s)
	}
	return !was
}

// giveUpRing is leave for a thread that stays and is no longer sampled.
func (s *seat) giveUpRing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeRing()
}

func (s *seat) closeRing() {
	s.unpublished.Store(false)
	if s.ring != nil {
		s.ring.Close()
		s.ring = nil
	}
}

// overdue reports whether the thread runs, is marked, and has reached no safe point since
// the marker saw that overdueAfter ago.
func (s *seat) overdue(epoch uint32, now time.Time) bool {
	reached := s.reached.Load()
	switch {
	case s.parked.Load() || reached == epoch:
		s.sweep = lastSweep{reached, time.Time{}}
		return false
	case s.sweep.since.IsZero() || reached != s.sweep.reached:
		s.sweep = lastSweep{reached, now}
		return false
	}
	return now.Sub(s.sweep.since) >= overdueAfter
}

// overdueAfter is the time after which Stats.Unsafe counts a thread without a safe point.
const overdueAfter = time.Second

// seats belong to the attached threads with a hook, or to those without.
type seats struct {
	mu  sync.Mutex
	all []*seat // in no order
}

func (ss *seats) add(s *seat) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.index = len(ss.all)
	ss.all = append(ss.all, s)
}

// remove takes out an existing seat.
func (ss *seats) remove(s *seat) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	last := len(ss.all) - 1
	moved := ss.all[last]
	ss.all[s.index], moved.index = moved, s.index
	ss.all[last] = nil
	ss.all = ss.all[:last]
}

func (ss *seats) len() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.all)
}

// appendTo appends the seats to a list.
func (ss *seats) appendTo(list []*seat) []*seat {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return append(list, ss.all...)
}

// each calls f with every seat, under the lock.
func (ss *seats) each(f func(*seat)) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.all {
		f(s)
	}
}
