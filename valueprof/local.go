package valueprof

import "runtime"

// A Local is one writer's part of a [Shared], which tells how the two work
// together. One goroutine owns it and calls its methods. It fills cache lines of
// its own, and so does the memory of its table: two times 128 bytes more for up
// to 8 values.
type Local struct {
	t      Table  // here and not behind a pointer, which would cost a hit 0.25 ns
	seen   uint64 // the last value of asked that was answered, or parked
	shared *Shared
	place  *place // nil after Release
	_      [lineBytes - tableBytes - 3*8]byte
}

// Join returns the part of one further writer. Any goroutine may call it.
func (s *Shared) Join() *Local {
	p := s.takePlace()
	l := &Local{t: *p.emptyTable(s.capacity, s.hash), seen: parked, shared: s, place: p}
	// A finalizer and not a cleanup, because it is the Local that has the counts.
	// It must not run before the last method has counted, which may no longer need
	// l for that: hence runtime.KeepAlive at the ends, which costs no instruction.
	runtime.SetFinalizer(l, (*Local).Release)
	return l
}

// newPadded is New for a table whose slots and index share no cache line with
// other memory.
func newPadded(capacity int, h Hash) *Table {
	t := &Table{pad: true}
	t.init(capacity, h)
	return t
}

// Hit and Miss count v as those of [Table] do, in the same two steps.
func (l *Local) Hit(v uint64) bool {
	s := l.t.at(v * l.t.key >> (l.t.shift & 63))
	if s.Value != v {
		return false
	}
	if l.seen != l.shared.asked.Load() {
		return false
	}
	s.Count++
	runtime.KeepAlive(l)
	return true
}

// Miss counts a v that Hit has refused, after handing over what was asked for.
func (l *Local) Miss(v uint64) {
	if asked := l.shared.asked.Load(); asked != l.seen {
		l.place.give(&l.t)
		l.seen = asked
		l.place.answered.Store(asked)
	}
	l.t.Add(v)
	runtime.KeepAlive(l)
}

// Add counts v once.
func (l *Local) Add(v uint64) {
	if !l.Hit(v) {
		l.Miss(v)
	}
}

// Park hands over all counts. A writer calls it before it waits for something
// else than to count; it may go on counting at any time.
func (l *Local) Park() {
	l.place.give(&l.t)
	l.seen = parked
	l.place.answered.Store(parked)
	runtime.KeepAlive(l)
}

// Release hands over all counts and ends the writer's part. A further Release does
// nothing; any other method panics.
func (l *Local) Release() {
	if l.place == nil {
		return
	}
	runtime.SetFinalizer(l, nil)
	l.Park()
	empty := l.t
	l.place.spare.Store(&empty)
	l.shared.leavePlace(l.place)
	l.t, l.place = Table{}, nil
}
