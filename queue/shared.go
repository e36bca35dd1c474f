package queue

import (
	"sync"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Shared is a ring of many producers that push rarely, such as the programs of a whole machine: a ring for each
// would take memory that most of them never fill. A push waits only for the pushes of others, never for the
// consumer. The samples of one producer come in the order of their pushes.
//
// Any goroutine may call its methods.
type Shared struct {
	mu   sync.Mutex
	ring *Ring
}

// Shared returns a ring for many producers.
func (q *Queue) Shared() *Shared { return &Shared{ring: q.Ring()} }

// Push is [Ring.Push].
func (s *Shared) Push(sample *ccmap.Sample) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring.Push(sample)
}

// Publish is [Ring.Publish], for the samples of all producers.
func (s *Shared) Publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.Publish()
}

// Close is [Ring.Close]. Later pushes of any producer count as dropped.
func (s *Shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.Close()
}
