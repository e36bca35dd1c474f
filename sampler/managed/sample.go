package managed

// Sample is what [Thread.Safepoint] does once the thread is marked: it takes the
// sample that is due, if any. A VM with a [Hook] calls it when its flag fires. It
// reports whether a burst is on: whether to call it again at the next safe point,
// mark or not.
func (t *Thread) Sample(w Walker) (again bool) {
	if t.walking { // the walker has run the VM's code
		return false
	}
	epoch := t.profiler.epoch.Load()
	if epoch != t.marked {
		t.answer(epoch)
	}
	switch {
	case t.remaining == 0:
	case t.skip > 0:
		t.skip--
	default:
		t.take(w)
	}
	t.seen = epoch
	if t.remaining == 0 {
		return false
	}
	t.seen += 1 << 31 // which no epoch is before so many marks more
	return true
}

// answer begins the burst that a mark asks for. One that is still on is given up,
// and what it owes goes over to the new one.
func (t *Thread) answer(epoch uint32) {
	p := t.profiler
	t.marked = epoch
	t.seat.reached.Store(epoch)
	if t.off || t.seat.parked.Load() || p.ended.Load() {
		t.remaining = 0
		return
	}
	weight, now := p.time.claim(t.accounted)
	t.owed += weight
	t.accounted = now
	t.remaining, t.skip = p.burst.Samples, 0
}

// take takes one sample of the burst.
func (t *Thread) take(w Walker) {
	first := t.remaining == t.profiler.burst.Samples
	weight := t.owed / int64(t.remaining)
	t.remaining--
	t.skip = t.profiler.burst.Stride - 1
	t.stack.begin(!t.known || t.forgotten())
	t.owed -= weight
	if !t.walk(w, t.visit) || len(t.stack.frames) == 0 {
		return
	}
	if t.stack.cut && t.known && t.stack.stop > 0 {
		t.stack.shorten()
	}
	t.describe(weight, first)
	if t.push() {
		t.pushed()
	} else {
		t.owed += weight // the next sample stands for this one, too
	}
	t.stack.forget()
}

// walk calls the walker. It reports whether that has come to an end: a walker that
// panics has its thread switched off, as what it says is not to be trusted any
// more, and one that ends its goroutine (runtime.Goexit) goes on doing so.
func (t *Thread) walk(w Walker, visit func(Frame) bool) (ok bool) {
	t.walking = true
	defer func() {
		t.walking = false
		if ok {
			return
		}
		t.stack.forget()
		if cause := recover(); cause != nil {
			t.off, t.remaining = true, 0
			t.profiler.panicked(t.id, cause)
		}
	}()
	w.Walk(visit)
	return true
}

// panicked counts a thread that is switched off.
func (p *Profiler) panicked(thread uint64, cause any) {
	p.counts.panicked.Add(1)
	p.logger.Warn("thread no longer sampled", "thread", thread, "panic", cause)
}

// describe writes the sample that the walk has found.
func (t *Thread) describe(weight int64, first bool) {
	p := t.profiler
	s := &t.sample
	t.stack.describe(s)
	s.Thread, s.Weight, s.Hit = t.id, weight, false
	s.Time = p.clock.Now()
	s.Early = !first || t.last != 0 && float64(s.Time-t.last) < onTime*float64(p.interval.Load())
}

// onTime is the part of the interval by which a sample comes after the last one,
// at least, unless it is early. The rest is what safe points scatter.
const onTime = 0.9

// push pushes the sample into the thread's ring, unless the thread or the
// profiler has ended.
func (t *Thread) push() bool {
	s := t.seat
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left || t.profiler.ended.Load() {
		t.off = true
		return false
	}
	if s.ring == nil {
		s.ring = t.profiler.sink.Queue.Ring()
	}
	if !s.ring.Push(&t.sample) {
		return false
	}
	s.unpublished.Store(true)
	return true
}

// pushed marks what the sample has seen, and counts the sample.
func (t *Thread) pushed() {
	t.stack.mark()
	s, c := &t.sample, &t.profiler.counts
	t.last, t.known = s.Time, !s.Truncated
	depth := len(s.Frames)
	if s.Depth == 0 {
		t.partial = 0
	} else {
		t.partial++
		depth += int(s.Depth) - 1
	}
	t.deepest = max(t.deepest, depth)
	t.traffic = c.traffic.Add(memoRoom(t.deepest))
	c.samples.Add(1)
	if s.Truncated {
		c.truncated.Add(1)
	}
}

// A map remembers the stacks of the threads that were sampled last, and cannot
// complete a partial sample of another one (ccmap/laststack.go): it is an orphan. So a
// thread walks to its outermost frame
//
//   - when so many samples of others came in between that a map without a bound of
//     its own may have forgotten it;
//   - for maps with less memory: at each sample in wholeEvery, anyway.
const (
	memoFrames = 1 << 20 / 4 * 3 // of the frames that a map has room for, what one may count on
	memoLeast  = 64              // frames of room that the bound on threads comes to for each
	wholeEvery = 128
)

// memoRoom is for how many frames a map has room for a thread's stack.
func memoRoom(deepest int) int64 { return int64(max(memoLeast, deepest+deepest/4)) }

// forgotten reports whether the map may not remember the thread's last stack.
func (t *Thread) forgotten() bool {
	return t.partial >= wholeEvery || t.profiler.counts.traffic.Load()-t.traffic > memoFrames
}
