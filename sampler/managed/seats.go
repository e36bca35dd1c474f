package managed

import (
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/ccmapd/ccmapd/queue"
)

// seat is what the profiler holds of an attached thread. It does not hold the
// [Thread] itself, so that a thread which its VM has forgotten is collected, and
// its ring goes on to another.
//
//	among, thread      written once
//	ring, left         under mu, which the thread takes to push and the marker to
//	                   publish what a thread at rest has not
//	unpublished        set by the thread under mu, cleared by who publishes
//	parked, reached    written by the thread, read by the marker
//	sweep              the marker's own
//	index              under the lock of the seats that it is among
//
// No code but this package's runs while a lock is held.
type seat struct {
	among  *seats
	thread weak.Pointer[Thread] // that has a hook

	mu   sync.Mutex
	ring *queue.Ring // nil before the first sample and after the last one
	left bool        // no more samples

	unpublished atomic.Bool
	parked      atomic.Bool
	reached     atomic.Uint32 // epoch at the last safe point that was marked
	sweep       lastSweep
	index       int
}

// lastSweep is what the marker saw of a thread when it last looked.
type lastSweep struct {
	reached uint32
	since   time.Time // that the thread has reached no safe point, at most; zero: none is due
}

// publish makes what the thread has pushed visible to the queue's consumer.
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

// leave publishes, gives the ring up and takes the seat away. It reports whether
// the thread was there.
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

// giveUpRing is leave for a thread that stays and is sampled no more.
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

// overdue reports whether the thread runs, is marked, and was seen in that state
// so long ago, without having reached a safe point since.
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

// overdueAfter is after which time a thread without a safe point is counted in
// Stats.Unsafe.
const overdueAfter = time.Second

// seats are those of attached threads: those with a hook, or those without.
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

// remove takes out a seat that is there.
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
