package managed

import (
	"runtime"
	"weak"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Thread is a thread of the VM, from [Profiler.Attach] to [Thread.Detach]. One
// goroutine at a time may use it; only Detach and ID may be called from any, at
// any time.
//
//	profiler … hook  written once
//	seat             shared with the marker; see there
//	all else         of the goroutine that uses the thread
type Thread struct {
	profiler *Profiler
	id       uint64
	hook     Hook
	seat     *seat

	seen      uint32 // epoch at which there is nothing to do; another one during a burst
	marked    uint32 // epoch that was last answered
	remaining int    // samples of the burst
	skip      int    // safe points until its next one
	owed      int64  // ns: weight of its remaining samples
	accounted int64  // ns of timekeeper.elapsed that the thread's samples stand for, or that it was parked
	off       bool   // switched off, or found to be detached
	walking   bool   // a walker is at work

	stack              stack
	visit, visitCaller func(Frame) bool // of stack
	known              bool             // the map has the whole stack of the thread's last sample
	partial            int              // samples since the last walk to the outermost frame
	deepest            int              // depth of all samples
	traffic            int64            // of the profiler, at the last sample
	last               int64            // CLOCK_MONOTONIC of the last sample, ns; 0: none
	sample             ccmap.Sample     // the one that is being taken
}

// ThreadOptions say what a thread needs. The zero value is that of a thread which
// calls [Thread.Safepoint].
type ThreadOptions struct {
	// Hook is for a VM whose code polls a flag of its own, for example because it
	// is compiled: the marker calls it to set the flag. Nil: no hook.
	Hook Hook
}

// Hook sets the flags that compiled code polls. Its methods are called on the
// marker's goroutine, one at a time and under no lock that a thread takes; they
// may attach and detach threads but must not wait, nor call [Profiler.Mark]. A
// hook that panics has its thread detached.
type Hook interface {
	// Mark sets the flag that makes the thread call [Thread.Sample] at its next safe
	// point. It is called at every mark, also while the thread is parked.
	Mark()
	// WantCalls sets the flag that makes the thread call [Thread.Called] at calls
	// with an exact receiver, until that returns false.
	WantCalls()
}

// Attach begins to sample a thread. It takes no ring of the queue before the
// first sample. Any goroutine may call it, before, during and after Run: what is
// attached then is never sampled.
//
// A thread that becomes garbage is detached by the garbage collector, and counted
// in Stats.Abandoned. Its hook does not keep it.
func (p *Profiler) Attach(o ThreadOptions) *Thread {
	t := &Thread{profiler: p, hook: o.Hook, seat: &seat{among: &p.plain}}
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
	if s.leave() {
		p.counts.abandoned.Add(1)
	}
}

// Detach ends the thread: it publishes its samples and gives its ring to the next
// thread. A thread whose goroutine goes on, or that is used again, is attached
// anew. Detaching again does nothing.
func (t *Thread) Detach() {
	t.seat.leave()
	runtime.KeepAlive(t) // or the garbage collector might be first, and count it
}

// ID returns what samples of this attachment have as their Thread: a number that
// no other attachment in this process has.
func (t *Thread) ID() uint64 { return t.id }

// Safepoint is to be called wherever the VM can walk its stack: at least at every
// method's entry and every loop's back edge. It takes a sample if the thread is
// marked. It inlines to two loads and a comparison.
func (t *Thread) Safepoint(w Walker) {
	if t.seen != t.profiler.epoch.Load() {
		t.Sample(w)
	}
}

// CallsWanted reports whether calls are to be caught now: whether to call
// [Thread.Called] at a call whose receiver is known exactly. It inlines to two
// loads.
func (t *Thread) CallsWanted() bool { return t.profiler.wanted.Load() }

// Park says that the thread leaves the VM's code, to wait or for other work: it
// publishes, and is not sampled before Unpark. Its time in between counts nowhere.
// Parking again does nothing.
func (t *Thread) Park() {
	if !t.seat.parked.Load() {
		t.seat.parked.Store(true)
		t.seat.publish()
	}
}

// Unpark says that the thread goes on with the VM's code. Marks that it was given
// meanwhile are forgotten. Without Park before it does nothing.
func (t *Thread) Unpark() {
	if t.seat.parked.Load() {
		t.catchUp()
		t.seat.parked.Store(false)
	}
}

// catchUp answers all marks so far, by no sample.
func (t *Thread) catchUp() {
	p := t.profiler
	t.marked = p.epoch.Load()
	t.seen, t.remaining = t.marked, 0
	t.accounted = p.time.elapsed.Load()
	t.seat.reached.Store(t.marked)
}
