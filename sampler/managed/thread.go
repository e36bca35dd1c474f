package managed

import (
	"runtime"
	"weak"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Thread is a thread of the VM, from [Profiler.Attach] to [Thread.Detach]. One goroutine
// at a time may use it. Only Detach and ID may be called from any goroutine, at any time.
//
//	profiler … hook  written once
//	seat, cells      shared with the marker; see there
//	all else         of the goroutine that uses the thread
type Thread struct {
	profiler *Profiler
	id       uint64
	hook     Hook
	seat     *seat
	cells    *cells

	seen      uint32 // epoch without work; another one during a burst
	marked    uint32 // last answered epoch
	remaining int    // samples of the burst
	skip      int    // safe points until its next one
	owed      int64  // ns: weight of the burst's remaining samples
	accounted int64  // ns of timekeeper.elapsed that samples, or parking, have used up
	off       bool   // switched off, or found to be detached
	walking   bool   // a walker is running
	waiting   wait

	stack              stack
	visit, visitCaller func(Frame) bool // of stack
	known              bool             // the map has the whole stack of the thread's last sample
	partial            int              // samples since the last walk to the outermost frame
	deepest            int              // greatest depth of all samples
	traffic            int64            // of the profiler, at the last sample
	last               int64            // CLOCK_MONOTONIC of the last sample, ns; 0: none
	sample             ccmap.Sample     // the one that is being taken
}

// ThreadOptions are the options of a thread. The zero value is for a thread that calls
// [Thread.Safepoint].
type ThreadOptions struct {
	// Hook is for a VM whose code polls a flag of its own, for example compiled code: the
	// marker calls it to set the flag. Nil: no hook.
	Hook Hook
}

// Hook sets the flags that compiled code polls. Its methods are called on the marker's
// goroutine, one at a time and under no lock that a thread takes. They may attach and
// detach threads, but must not wait, nor call [Profiler.Mark]. If a hook panics, its
// thread is detached.
type Hook interface {
	// Mark sets the flag that makes the thread call [Thread.Sample] at its next safe
	// point. It is called at every mark, also while the thread is parked.
	Mark()
	// WantCalls sets the flag that makes the thread call [Thread.Called] at calls with an
	// exact receiver, until Called returns false.
	WantCalls()
}

// Attach starts to sample a thread. It takes a ring of the queue only at the first
// sample. Any goroutine may call it, before, during and after Run. A thread that is
// attached after Run is never sampled.
//
// The garbage collector detaches a thread that becomes garbage, which counts in
// Stats.Abandoned. Its hook does not keep it.
func (p *Profiler) Attach(o ThreadOptions) *Thread {
	t := &Thread{profiler: p, hook: o.Hook, seat: &seat{among: &p.plain}, cells: new(cells)}
	t.seat.cells = t.cells
	t.id, t.stack.serial = newSerial()
	t.stack.first, t.stack.id, t.stack.limit = p.first, t.id, p.maxFrames
	t.visit, t.visitCaller = t.stack.visit, t.stack.visitCaller
	t.catchUp()
	if t.hook != nil {
		t.seat.among, t.seat.thread = &p.hooked, weak.Make(t)
	}
	t.seat.among.add(t.seat)
	runtime.AddCleanup(t, p.abandon, t.seat)
	return t
}

// abandon detaches a thread that was collected.
func (p *Profiler) abandon(s *seat) {
	p.points.take(s.cells)
	if s.leave() {
		p.counts.abandoned.Add(1)
	}
}

// Detach ends the thread: it publishes its samples, gives its ring to the next thread, and
// its points to the profile. A thread that goes on, or is used again, must be attached again.
// A second Detach does nothing. With points other than calls ([Options].Points) only the
// goroutine that uses the thread may call it, or any while the thread is parked.
func (t *Thread) Detach() {
	t.seat.leave() // now the marker is done with it
	t.profiler.points.take(t.cells)
	runtime.KeepAlive(t) // or the garbage collector might be first, and count it
}

// ID returns the Thread field of this attachment's samples. No other attachment in this
// process has the same number.
func (t *Thread) ID() uint64 { return t.id }

// Call Safepoint wherever the VM can walk its stack: at least at every method's entry and
// every loop's back edge. It takes a sample if the thread is marked. It inlines to two
// loads and a comparison.
func (t *Thread) Safepoint(w Walker) {
	if t.seen != t.profiler.epoch.Load() {
		t.Sample(w)
	}
}

// CallsWanted reports whether calls are caught now. If so, call [Thread.Called] at every
// call whose receiver is known exactly. It inlines to two loads.
func (t *Thread) CallsWanted() bool { return t.profiler.wanted.Load() }

// Park says that the thread leaves the VM's code, to wait or for other work. It publishes
// the samples, and takes none before Unpark. The time in between does not count. A second
// Park does nothing.
func (t *Thread) Park() {
	if !t.seat.parked.Load() {
		t.Merge()
		t.seat.parked.Store(true)
		t.seat.publish()
	}
}

// Unpark says that the thread goes on with the VM's code. It drops earlier marks. Without
// an earlier Park or [Thread.Blocked] it does nothing.
func (t *Thread) Unpark() {
	if t.seat.parked.Load() {
		if t.waiting.walker != nil {
			t.tellWait()
		}
		t.catchUp()
		t.seat.unpark(t.profiler.points != nil)
	}
}

// catchUp answers all marks so far, without a sample.
func (t *Thread) catchUp() {
	p := t.profiler
	t.marked = p.epoch.Load()
	t.seen, t.remaining = t.marked, 0
	t.accounted = p.time.elapsed.Load()
	t.seat.reached.Store(t.marked)
}
