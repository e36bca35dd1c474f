package valueprof

import (
	"sync"
	"sync/atomic"
)

// lineBytes is what the memory of one goroutine is padded to: two cache lines,
// since processors fetch them in pairs.
const lineBytes = 128

// Shared counts the values of one variable that many goroutines write, each in a
// table of its own, so that a hit costs the same on any number of threads. One
// other goroutine, the collector, gets the tables handed over and adds them up:
//
//	writer, one goroutine                      collector, one goroutine
//	Local with a Table ── handed ──▶ place ──▶ Merge into a Table of its own
//	   ▲                             place ◀── the same table, emptied: spare
//	   └── every hit reads asked ◀──────────── Collect increments it
//
// Collect takes what has been handed over and then increments asked. A writer
// compares asked with the last value it saw; when they differ it puts its table
// into its place, goes on with the spare, and only then counts. A table is in the
// hands of one goroutine at any time, and changes hands by an atomic swap of a
// pointer in the place: a writer that counts waits for nobody, nor does the
// collector. A writer that finds its last table not collected takes it back, adds
// the newer one to it, and puts it there again; and the next writer to join takes
// over the place of one that ended, with what is left in it. So there are never
// more than three tables for each writer of the largest number that there were at
// one time, however far the collector falls behind: one that counts, one handed
// over, and one that the collector has, or has left as the spare.
//
// A writer that stops to count cannot be made to answer. There are four ways to
// stop:
//
//   - it goes on later: its counts come then, and are late, not lost. Collect
//     tells how many writers did not answer;
//   - it calls [Local.Park] before it waits for something: the counts are handed
//     over unasked, and the next Add goes on;
//   - it calls [Local.Release]: the counts are handed over for the last time;
//   - it ends without: when the garbage collector finds the Local unreachable,
//     the same is done for it. Its counts come one garbage collection late.
//
// So the number of adds is what Collect has merged, plus what is in the tables of
// writers that go on; once all were released and then collected, it is the former.
type Shared struct {
	_     [lineBytes]byte
	asked atomic.Uint64 // read by every writer on every hit, written by the collector only
	_     [lineBytes - 8]byte

	capacity int
	hash     Hash

	mu     sync.Mutex // held by Join, Release and Collect, for the lists
	places []*place   // all
	free   []*place   // of no writer now
}

// NewShared returns a variable without writers. Capacity and hash are those of
// every writer's [Table].
func NewShared(capacity int, h Hash) *Shared {
	return &Shared{capacity: capacity, hash: h.Resolve()}
}

// A place is where a writer and the collector exchange tables.
type place struct {
	handed   atomic.Pointer[Table] // set by the writer, taken by either
	spare    atomic.Pointer[Table] // empty; set by the collector, taken by the writer
	answered atomic.Uint64         // last value of asked that the writer saw, or parked
	_        [lineBytes - 3*8]byte
}

// parked is what answered is while a writer holds no counts, or there is none.
const parked = ^uint64(0)

// give hands over what is in a writer's table and leaves it empty.
func (p *place) give(t *Table) {
	if t.empty() {
		return
	}
	if uncollected := p.handed.Swap(nil); uncollected != nil {
		uncollected.Merge(t)
		t.clear()
		p.handed.Store(uncollected)
		return
	}
	next := p.emptyTable(t.Cap(), t.Hash())
	*t, *next = *next, *t
	p.handed.Store(next)
}

// emptyTable returns the spare, or a new table.
func (p *place) emptyTable(capacity int, h Hash) *Table {
	if spare := p.spare.Swap(nil); spare != nil {
		return spare
	}
	return newPadded(capacity, h)
}

// Collect adds to a table of the caller what the writers have handed over, and
// asks for the next. It returns how many writers have neither answered the last
// call nor parked: these may hold counts back. One goroutine at a time calls it.
func (s *Shared) Collect(into *Table) (silent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked.Load()
	for _, p := range s.places {
		if answered := p.answered.Load(); answered != asked && answered != parked {
			silent++
		}
		p.collect(into)
	}
	s.asked.Store(asked + 1)
	return silent
}

// collect takes the table that was handed over, if any.
func (p *place) collect(into *Table) {
	if t := p.handed.Swap(nil); t != nil {
		p.drain(t, into)
	}
}

// drain adds up a table that was handed over, and leaves it in the place as the
// spare. A spare that is there already was not needed.
func (p *place) drain(t, into *Table) {
	into.Merge(t)
	t.clear()
	p.spare.Store(t)
}

// Writers returns how many writers have joined and not ended.
func (s *Shared) Writers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.places) - len(s.free)
}

// takePlace returns a place for one further writer.
func (s *Shared) takePlace() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		p := s.free[last]
		s.free = s.free[:last]
		return p
	}
	p := new(place)
	p.answered.Store(parked)
	s.places = append(s.places, p)
	return p
}

func (s *Shared) leavePlace(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, p)
}
