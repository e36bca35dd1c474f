package tlab

import (
	"cmp"
	"math"
	"slices"
)

// Allocation is an object that a thread's buffer had no room for.
type Allocation struct {
	Thread int64
	Time   int64 // ns, by the clock of the pauses
	Size   int64 // of the object, bytes
	Buffer int64 // the thread's new buffer, bytes; 0: the object lies outside of buffers
}

// Weigher weighs the allocations of one JVM. The zero Weigher has seen none. One goroutine at a time
// may use it.
type Weigher struct {
	threads map[int64]*thread
	others  model   // of threads that have few cycles
	pauses  []int64 // of the collector, in order

	all, misplaced int // objects; of these, outside, and too small for that
}

// thread is what is known of a thread.
type thread struct {
	cycle
	begun bool  // the cycle's buffer is known
	since int64 // when it was taken
	life  int64 // of the last buffer that was used up, ns; 0: not known
	bare  bool  // it has no buffer: the heap's region ended with the last one
	pause int64 // the last one before it was taken; 0: there was none
	own   model
}

// cycle is the life of a buffer, from one refill to the next.
type cycle struct {
	room    int64 // bytes that it had, beside the object that it was taken for
	largest int64 // room of the thread's buffers since the last pause: it decides what may be wasted
	outside int64 // objects outside, meanwhile
}

// Bounds of what is remembered and believed.
const (
	mostThreads = 1 << 12
	mostPauses  = 1 << 14
	largestSize = 1 << 40 // bytes
	mostFits    = 16      // in one go
)

// Weigh returns how many bytes each allocation stands for, at least its own size. Pauses are the times of
// the collector's, of the same time or earlier. The allocations of a thread are later than those of earlier calls. Both
// may come in any order.
func (w *Weigher) Weigh(allocations []Allocation, pauses []int64) []int64 {
	w.addPauses(pauses)
	g := w.group(allocations)
	w.fit(g)
	weights := make([]int64, len(allocations))
	for i, a := range allocations {
		weights[i] = sized(a.Size)
	}
	for _, s := range g {
		s.weigh(w.modelOf(s.thread), allocations, weights)
	}
	return weights
}

// stretch is what one thread has done between two calls.
type stretch struct {
	*thread
	hidden float64 // bytes of objects that were not seen
	seen   []int   // indices of objects that were seen for their size
	first  []int   // of those that came first after a pause, or at all
}

// addPauses adds pauses, and forgets the first ones if there are too many.
func (w *Weigher) addPauses(pauses []int64) {
	w.pauses = append(w.pauses, pauses...)
	slices.Sort(w.pauses)
	w.pauses = slices.Delete(w.pauses, 0, max(len(w.pauses)-mostPauses, 0))
}

// pauseBefore returns the last pause up to a time.
func (w *Weigher) pauseBefore(time int64) int64 {
	n, found := slices.BinarySearch(w.pauses, time)
	switch {
	case found:
		return time
	case n == 0:
		return 0
	}
	return w.pauses[n-1]
}

// group goes through the allocations in the order of time, and divides them by thread.
func (w *Weigher) group(allocations []Allocation) []*stretch {
	order := make([]int, len(allocations))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(allocations[i].Time, allocations[j].Time) })
	after := nextOfThread(allocations, order)
	stretches := make(map[*thread]*stretch)
	var list []*stretch
	for _, i := range order {
		t := w.thread(allocations[i].Thread)
		s := stretches[t]
		if s == nil {
			s = &stretch{thread: t}
			stretches[t], list = s, append(list, s)
		}
		w.count(t, allocations[i])
		if n := after[i]; n >= 0 && w.endsRegion(t, allocations[i], allocations[n]) {
			w.endRegion(s, i, allocations[i])
		} else {
			w.add(s, i, allocations[i])
		}
	}
	return list
}

// nextOfThread returns the index of each allocation's next one of the same thread; -1: there is none.
func nextOfThread(allocations []Allocation, order []int) []int {
	after, last := make([]int, len(allocations)), make(map[int64]int)
	for _, i := range slices.Backward(order) {
		n, seen := last[allocations[i].Thread]
		if !seen {
			n = -1
		}
		after[i], last[allocations[i].Thread] = n, i
	}
	return after
}

// A buffer that is kept lasts for a 64th of its life at least, until a small object ends it. One that is gone is
// followed by the next one shortly, but writing two events takes some µs, in which a fast thread fills a 64th.
// Where a JVM puts objects outside that are too small for that, most that lie outside have ended a region, and
// shortly may be that long.
const (
	shortly      = 256  // part of the life of a buffer
	shortlyThere = 8    // the same there, but eventsTime at most
	eventsTime   = 6000 // ns
	fewMisplaced = 0.01 // of all objects: memory can run out
)

// count notes whether an object lies outside that is too small for that.
func (w *Weigher) count(t *thread, a Allocation) {
	w.all++
	if a.Buffer <= 0 && sized(a.Size) < t.largest/wastePart {
		w.misplaced++
	}
}

// endsRegion reports whether an object lies outside because the heap's region has ended with the thread's
// buffer. Then the thread's next object has a new buffer, whatever its size.
func (w *Weigher) endsRegion(t *thread, a, next Allocation) bool {
	small, soon := t.largest/wastePart, t.life/shortly
	if float64(w.misplaced) > fewMisplaced*float64(w.all) {
		soon = max(soon, min(t.life/shortlyThere, eventsTime))
	}
	return a.Buffer <= 0 && next.Buffer > 0 && sized(next.Size) <= small && w.pauseBefore(a.Time) == w.pauseBefore(next.Time) &&
		(sized(a.Size) < small || next.Time-a.Time < soon)
}

// endRegion adds an object that has ended a buffer, and has no other one.
func (w *Weigher) endRegion(s *stretch, i int, a Allocation) {
	s.hidden += float64(s.room)
	s.seen = append(s.seen, i)
	w.see(s.thread, sized(a.Size))
	w.end(s.thread)
	s.bare, s.life = true, a.Time-s.since
}

func (w *Weigher) thread(id int64) *thread {
	t := w.threads[id]
	if t == nil {
		if w.threads == nil || len(w.threads) >= mostThreads {
			w.threads = make(map[int64]*thread)
		}
		t = new(thread)
		w.threads[id] = t
	}
	return t
}

// sized bounds a size that an event says.
func sized(bytes int64) int64 { return min(max(bytes, 0), largestSize) }

// add adds an allocation. A refill ends a cycle, and the next one begins.
func (w *Weigher) add(s *stretch, i int, a Allocation) {
	size, pause := sized(a.Size), w.pauseBefore(a.Time)
	if a.Buffer <= 0 {
		s.outside++
		s.seen = append(s.seen, i)
		w.see(s.thread, size)
		return
	}
	switch {
	case !s.begun, s.bare:
		s.first = append(s.first, i)
	case s.pause != pause: // the collector has taken the buffer, after half of it on the average
		s.hidden += float64(s.room) / 2
		s.first = append(s.first, i)
	default:
		s.hidden += float64(s.room)
		s.seen = append(s.seen, i)
		w.see(s.thread, size)
		w.end(s.thread)
		s.life = a.Time - s.since
	}
	s.since, s.bare = a.Time, false
	s.begin(max(sized(a.Buffer)-size, 0), pause)
}

func (t *thread) begin(room, pause int64) {
	if t.pause != pause {
		t.largest = 0
	}
	t.begun, t.pause = true, pause
	t.cycle = cycle{room: room, largest: max(t.largest, room)}
}

// see and end tell the models of an object and of a cycle.
func (w *Weigher) see(t *thread, size int64) {
	t.own.see(size)
	if !t.own.suffices() {
		w.others.see(size)
	}
}

func (w *Weigher) end(t *thread) {
	t.own.end(t.cycle)
	if !t.own.suffices() {
		w.others.end(t.cycle)
	}
}

// fit brings the models up to date.
func (w *Weigher) fit(stretches []*stretch) {
	left := mostFits
	if w.others.isDue() {
		w.others.fit()
	}
	for _, s := range stretches {
		if left > 0 && s.own.isDue() {
			s.own.fit()
			left--
		}
	}
}

// modelOf returns the model of a thread, or the one of all threads that have few cycles.
func (w *Weigher) modelOf(t *thread) *model {
	if t.own.isFitted() {
		return &t.own
	}
	return &w.others
}

// weigh divides the bytes of hidden objects among those that were seen.
func (s *stretch) weigh(m *model, allocations []Allocation, weights []int64) {
	seen := s.seen
	if len(seen) == 0 {
		seen = s.first
	}
	shares, sum := make([]float64, len(seen)), 0.0
	for n, i := range seen {
		size := float64(max(sized(allocations[i].Size), 1))
		visible := m.visible(size, float64(s.largest))
		shares[n] = size * (1 - visible) / visible
		sum += shares[n]
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return
	}
	for n, i := range seen {
		weights[i] += int64(s.hidden * (shares[n] / sum))
	}
}
