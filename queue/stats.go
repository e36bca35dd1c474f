package queue

// Stats counts samples since the queue was made. Pushed = Delivered + Dropped
// once all rings have published and a Drain after that has returned; before,
// the difference is what is still queued. Samples that a ring has not published
// yet count nowhere.
type Stats struct {
	Pushed    uint64 // offered to a ring, whether it took them or not
	Delivered uint64 // handed to the consumer
	Dropped   uint64 // refused: the ring was full or closed, or the sample larger than the ring
	Oversized uint64 // of Dropped: larger than the ring, so that no waiting would have helped
	Rings     int    // buffers made: the largest number of rings open at one time
}

// Stats may be called from any goroutine. Delivered is read before all else, so
// that no more ever seems to have come out than went in.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	late := q.late.Load()
	s := Stats{Delivered: q.delivered.Load(), Pushed: late, Dropped: late, Rings: q.count}
	for _, f := range *q.bitmap.Load() {
		for _, b := range f.buffers {
			if b != nil {
				s.count(b)
			}
		}
	}
	return s
}

func (s *Stats) count(b *buffer) {
	dropped := b.dropped.Load()
	s.Pushed += b.accepted.Load() + dropped
	s.Dropped += dropped
	s.Oversized += b.oversized.Load()
}
