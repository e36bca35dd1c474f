package managed

// Sample takes a due sample, if any. [Thread.Safepoint] calls it when the thread is
// marked. A VM with a [Hook] calls it when its flag fires. It reports whether a burst
// goes on: then the VM must call it again at the next safe point, with or without a mark.
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
		t.takeSample(w)
	}
	t.seen = epoch
	if t.remaining == 0 {
		return false
	}
	t.seen += 1 << 31 // no epoch equals this for 2³¹ marks
	return true
}

// answer begins the burst for a mark. An unfinished burst ends, and the new one takes
// over its weight.
func (t *Thread) answer(epoch uint32) {
	p := t.profiler
	t.marked = epoch
	t.seat.reached.Store(epoch)
	t.Merge()
	if t.off || t.seat.parked.Load() || p.ended.Load() {
		t.remaining = 0
		return
	}
	weight, now := p.time.claim(t.accounted)
	t.owed += weight
	t.accounted = now
	t.remaining, t.skip = p.burst.Samples, 0
}

// takeSample takes one sample of the burst.
func (t *Thread) takeSample(w Walker) {
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

// walk calls the walker, and reports whether it returned. If a walker panics, its thread
// is switched off, because its frames cannot be trusted. A walker that ends its goroutine
// (runtime.Goexit) still ends it.
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

// panicked counts a switched-off thread.
func (p *Profiler) panicked(thread uint64, cause any) {
	p.counts.panicked.Add(1)
	p.logger.Warn("thread no longer sampled", "thread", thread, "panic", cause)
}

// describe writes the walk's sample.
func (t *Thread) describe(weight int64, first bool) {
	p := t.profiler
	s := &t.sample
	t.stack.describe(s)
	s.Thread, s.Weight, s.Hit = t.id, weight, false
	s.Time = p.clock.Now()
	s.Early = !first || t.last != 0 && float64(s.Time-t.last) < onTime*float64(p.interval.Load())
}

// onTime is the least part of the interval between two samples, unless the second is
// early. The rest is the scatter of safe points.
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

// pushed marks the sample's activations, and counts the sample.
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
	t.traffic = c.traffic.Add(lastStackRoom(t.deepest))
	c.samples.Add(1)
	if s.Truncated {
		c.truncated.Add(1)
	}
}

// A map remembers the last stacks of recently sampled threads. It cannot complete a
// partial sample of another thread (ccmap/laststack.go), which is then an orphan. So a
// thread walks to its outermost frame
//
//   - when other threads took so many samples in between that a map with the default
//     bound may have forgotten it;
//   - for maps with less memory: once in wholeEvery samples.
const (
	lastStackFrames = 1 << 20 / 4 * 3 // frames of last stacks that a map is certain to remember
	lastStackLeast  = 64              // frames for each thread, from the bound on threads
	wholeEvery      = 128
)

// lastStackRoom is the number of frames that a map reserves for a thread's stack.
func lastStackRoom(deepest int) int64 { return int64(max(lastStackLeast, deepest+deepest/4)) }

// forgotten reports whether the map may not remember the thread's last stack.
func (t *Thread) forgotten() bool {
	return t.partial >= wholeEvery || t.profiler.counts.traffic.Load()-t.traffic > lastStackFrames
}
