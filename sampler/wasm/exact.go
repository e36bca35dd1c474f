package wasm

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// exact records every call of the guests instead of samples. The map is complete and, for
// a deterministic guest, the same in every run. Tests compare sampled profiles with it.
//
//  1. The module is rewritten to count the instructions that it executes
//     (rewrite.Options.Exact), and each of its functions has a listener. The stack is
//     kept here (callStack): wazero's stack gives only the caller's position.
//  2. At the end of every activation one sample has the number of instructions that
//     it executed itself as its weight. So time in the host weighs nothing.
//  3. Host functions are activations, too. They begin where the guest announces its
//     call of an import, and end at the safe point after that call. The guest's Mark is
//     set for that safe point alone.
//  4. Nothing is dropped: if a ring is full, the guest waits for the manager.
//
// An activation can end without an event, because the stack overflowed or a host restored
// a snapshot. Its end is recorded at the next event that shows it.
//
//	profiler … clock  set by newExact
//	giveUp            closed when waiting for the manager is useless
//	last              the thread of the last event: nearly always the next one's, too
//	pushed            by all threads
//	all else          under mu
//
// A thread has a lock of its own, which is taken before mu, never after.
type exact struct {
	profiler *Profiler
	sink     sampler.Sink
	clock    sampler.Clock

	giveUp chan struct{}
	last   atomic.Pointer[exactThread]
	pushed atomic.Uint64 // samples

	mu      sync.Mutex
	threads map[api.Module]*exactThread
	sweep   int     // forgetClosed runs at this number of threads
	lanes   []*lane // free
	made    uint64  // lanes, ever
	stopped bool
}

// lane is a way to the manager: a ring, and the thread of its samples. As the two stay
// together, samples of a thread arrive in order. A guest has a lane during a call.
type lane struct {
	thread uint64
	ring   *queue.Ring
}

func newExact(p *Profiler) *exact {
	return &exact{
		profiler: p, sink: p.Sink(), clock: sampler.NewClock(), giveUp: make(chan struct{}),
		threads: make(map[api.Module]*exactThread), sweep: leastSweep,
	}
}

// ExactRingWords is the size of the queue's rings with which guests seldom wait for the
// manager while every call is recorded: a millisecond has some 5,000 calls, of 9 words
// each. Use it for the queue of a sink with [Options].Exact.
const ExactRingWords = 1 << 17

const (
	leastSweep = 16

	// grace is how long stop lets guests wait for the manager to take their samples. A
	// running manager takes them all within milliseconds.
	grace = 5 * time.Second
)

// exactFunction is a function of a rewritten module, and its listener. Hosts call it on
// the goroutines of the module's instances.
type exactFunction struct {
	exact   *exact
	module  *module
	number  uint32 // in the original, if frame is set
	frame   bool   // a function of the original, not a thunk
	counted bool   // its activations are numbered
	entry   bool   // only hosts call it
}

// listener returns the listener of a function of a rewritten module, or nil for a
// function without events.
func (x *exact) listener(m *module, index uint32) experimental.FunctionListener {
	f := &exactFunction{exact: x, module: m}
	_, f.entry = m.rewritten.Entries[index]
	if f.number, f.frame = m.rewritten.Function(index); f.frame {
		f.counted = m.rewritten.Functions[int(f.number)-m.rewritten.Imported] == rewrite.Polled
	}
	if !f.frame && !f.entry {
		return nil
	}
	return f
}

func (f *exactFunction) method() ccmap.MethodID { return f.module.method(f.number) }

// Before begins an activation.
func (f *exactFunction) Before(_ context.Context, instance api.Module, _ api.FunctionDefinition, _ []uint64, stack experimental.StackIterator) {
	t := f.exact.thread(instance, f.module)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.prepareEvent() {
		return
	}
	if f.entry {
		t.enterGuest()
	}
	if f.frame {
		t.call(f, stack)
	}
}

// After ends an activation that returns.
func (f *exactFunction) After(_ context.Context, instance api.Module, _ api.FunctionDefinition, _ []uint64) {
	f.end(instance)
}

// Abort ends an activation that a trap, an exit or a panic of the host unwinds. The host
// has called instance. If instance has called others in turn, their activations end when
// they are called again.
func (f *exactFunction) Abort(_ context.Context, instance api.Module, _ api.FunctionDefinition, _ error) {
	f.end(instance)
}

func (f *exactFunction) end(instance api.Module) {
	t := f.exact.thread(instance, nil)
	if t == nil || t.module != f.module {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open() {
		return
	}
	t.spend()
	if f.entry {
		t.leaveGuest()
	} else {
		t.ended(f)
	}
	t.rest()
}

// sample handles the safe points around calls of imports. stack is from a listener on the
// host function that safe points call.
func (x *exact) sample(instance api.Module, reason uint32, stack experimental.StackIterator) {
	t := x.thread(instance, nil)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open() {
		t.wait(false)
		return
	}
	t.spend()
	switch imported, before, ok := rewrite.Import(reason); {
	case ok && before:
		t.callHost(t.module.method(imported), stack)
	case ok:
		t.hostReturned()
	default: // a tail call of an import has no safe point after it
		t.wait(false)
	}
}

// thread returns the thread of an instance. At the first call it makes one, if m is the
// instance's module. Without m it returns nil.
func (x *exact) thread(instance api.Module, m *module) *exactThread {
	if t := x.last.Load(); t != nil && t.instance == instance {
		return t
	}
	t, closed := x.find(instance, m)
	for _, c := range closed {
		c.stop()
	}
	if t != nil {
		x.last.Store(t)
	}
	return t
}

func (x *exact) find(instance api.Module, m *module) (t *exactThread, closed []*exactThread) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t = x.threads[instance]; t != nil || m == nil {
		return t, nil
	}
	if len(x.threads) >= x.sweep {
		closed = x.forgetClosed()
	}
	t = newExactThread(x, m, instance)
	x.threads[instance] = t
	return t, closed
}

// forgetClosed forgets the threads of closed instances, and returns them. It runs again
// when there are twice as many threads as are left.
func (x *exact) forgetClosed() (closed []*exactThread) {
	for instance, t := range x.threads {
		if instance.IsClosed() {
			closed = append(closed, t)
			delete(x.threads, instance)
		}
	}
	x.sweep = max(2*len(x.threads), leastSweep)
	return closed
}

// takeLane returns a free lane.
func (x *exact) takeLane() *lane {
	x.mu.Lock()
	defer x.mu.Unlock()
	if last := len(x.lanes) - 1; last >= 0 {
		l := x.lanes[last]
		x.lanes = x.lanes[:last]
		return l
	}
	x.made++
	return &lane{x.made, x.sink.Queue.Ring()}
}

// giveBack publishes a lane's samples, and keeps the lane for the next thread.
func (x *exact) giveBack(l *lane) {
	l.ring.Publish()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lanes = append(x.lanes, l)
}

// all returns all threads.
func (x *exact) all() []*exactThread {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.threads))
}

// ask makes every guest call the host at its next safe point.
func (x *exact) ask() {
	for _, t := range x.all() {
		t.ask()
	}
}

// stop reports all activations on the stacks. Later calls of guests are not recorded, but
// guests can still be asked to call the host.
func (x *exact) stop() {
	timer := time.AfterFunc(grace, func() { close(x.giveUp) })
	defer timer.Stop()
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	for _, t := range x.all() {
		t.stop()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.lanes {
		l.ring.Close()
	}
	x.lanes = nil
}
