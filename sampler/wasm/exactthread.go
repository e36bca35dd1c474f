package wasm

import (
	"sync"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// exactThread records the calls of one instance. One goroutine at a time makes them.
//
//	exact … points  set when it is made
//	all else        under mu: events on the guest's goroutine, stop on the session's
type exactThread struct {
	exact    *exact
	module   *module
	instance api.Module
	executed api.Global        // instructions, as the guest counts them
	depth    api.MutableGlobal // numbered activations at a call
	mark     api.MutableGlobal // makes the next safe point call the host
	limit    api.MutableGlobal // does so too, if the next safe point is a function's entry
	points   *managed.Thread   // counts points; nil: none are wanted

	mu      sync.Mutex
	stack   callStack
	entries []exactEntry                             // by hosts, not ended
	sites   map[experimental.ProgramCounter]position // by hosts, unfinished
	counted uint64                                   // instructions that activations have got
	lane    *lane                                    // during a call
	due     int                                      // samples until the next reading of the clock
	unasked int                                      // points until the next look whether someone waits for them
	push    func(*ccmap.Sample)
	stopped bool
}

// exactEntry is a call by a host.
type exactEntry struct {
	calls int    // below it on the stack
	depth uint64 // of the guest, restored when it is called again
}

// newExactThread is called with the lock of x held.
func newExactThread(x *exact, m *module, instance api.Module) *exactThread {
	t := &exactThread{
		exact:    x,
		module:   m,
		instance: instance,
		executed: global(instance, rewrite.ExecutedGlobal),
		depth:    global(instance, rewrite.DepthGlobal),
		mark:     global(instance, rewrite.MarkGlobal),
		limit:    global(instance, rewrite.LimitGlobal),
		sites:    make(map[experimental.ProgramCounter]position),
		stopped:  x.stopped,
	}
	t.push = t.pushSample
	if g := global(instance, rewrite.PointsGlobal); g != nil && !t.stopped {
		t.points = x.profiler.Attach(managed.ThreadOptions{})
		g.Set(1)
	}
	return t
}

// prepareEvent prepares for the event of a new call, and reports whether to record it.
func (t *exactThread) prepareEvent() bool {
	if t.stopped {
		return false
	}
	if !t.open() {
		t.lane = t.exact.takeLane()
		t.stack.sample.Thread = t.lane.thread
		t.counted = t.executed.Get()
		t.wait(false)
	}
	t.spend()
	return true
}

// open reports whether a call is under way.
func (t *exactThread) open() bool { return t.lane != nil }

// rest gives the lane back when no call is under way.
func (t *exactThread) rest() {
	if len(t.stack.calls) == 0 && len(t.entries) == 0 {
		t.exact.giveBack(t.lane)
		t.lane = nil
		t.mergePoints()
	}
}

// wait decides whether the guest calls the host at its next safe point: after an import
// that it calls, or at any safe point if the profiler asks for it.
func (t *exactThread) wait(forHost bool) {
	switch {
	case t.exact.profiler.calling():
		t.poll()
	case forHost:
		t.mark.Set(1)
	default:
		t.mark.Set(0)
	}
}

// poll makes the guest call the host at its next safe point of any kind.
func (t *exactThread) poll() {
	t.mark.Set(1)
	t.limit.Set(rewrite.AllNumbers)
}

// ask makes the guest call the host at its next safe point.
func (t *exactThread) ask() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.poll()
}

// spend gives the instructions since the last event to the innermost activation.
func (t *exactThread) spend() {
	now := t.executed.Get()
	t.stack.spend(int64(now - t.counted))
	t.counted = now
}

// enterGuest begins a call by a host: by the function that the guest has called last, or
// from outside. Everything else on the stack has ended without an event.
func (t *exactThread) enterGuest() {
	calls := t.stack.innermostHost() + 1
	t.leaveTo(calls)
	t.forgetEntries(calls)
	if len(t.entries) == 0 {
		t.depth.Set(0)
	}
	t.entries = append(t.entries, exactEntry{calls, t.depth.Get()})
	t.wait(false)
}

// leaveGuest ends a call by a host, by its return or a trap.
func (t *exactThread) leaveGuest() {
	last := len(t.entries) - 1
	if last < 0 {
		return
	}
	calls := t.entries[last].calls
	t.leaveTo(calls)
	t.forgetEntries(calls)
	t.wait(calls > 0) // a host function below goes on
}

// leaveTo ends activations until calls are left, and drops the entries above.
func (t *exactThread) leaveTo(calls int) {
	t.stack.leaveTo(calls, t.push)
	t.forgetEntries(calls + 1)
}

// forgetEntries drops the entries above calls activations, or more.
func (t *exactThread) forgetEntries(calls int) {
	n := len(t.entries)
	for n > 0 && t.entries[n-1].calls >= calls {
		n--
		t.depth.Set(t.entries[n].depth)
	}
	t.entries = t.entries[:n]
}

// call begins an activation of a function of the guest.
func (t *exactThread) call(f *exactFunction, stack experimental.StackIterator) {
	depth := uint32(t.depth.Get())
	at := t.caller(depth, stack)
	t.stack.enter(activation{frame: ccmap.Frame{Method: f.method()}, depth: depth, counted: f.counted}, at.Offset, t.push)
}

// callHost begins an activation of a host function. The guest's next safe point then is
// the one after its call.
func (t *exactThread) callHost(method ccmap.MethodID, stack experimental.StackIterator) {
	at := t.caller(uint32(t.depth.Get()), stack)
	t.stack.enter(activation{frame: ccmap.Frame{Method: method}, host: true}, at.Offset, t.push)
	t.wait(true)
}

// ended ends the innermost activation of a function, and all above it.
func (t *exactThread) ended(f *exactFunction) {
	if i := t.stack.innermost(f.method()); i >= 0 {
		t.leaveTo(i)
	}
}

func (t *exactThread) hostReturned() {
	if i := t.stack.innermostHost(); i >= 0 {
		t.leaveTo(i)
	}
	t.wait(false)
}

// unknownCaller is the caller of a call that no code of the guest made.
var unknownCaller = ccmap.Frame{Method: ccmap.NoMethod, Offset: ccmap.NoOffset}

// caller ends the activations that have made a tail call, which wazero does not report.
// It returns where the innermost activation that is left makes the new call. The first
// frame of wazero's stack is the callee, or the host function that announces the call.
func (t *exactThread) caller(depth uint32, stack experimental.StackIterator) ccmap.Frame {
	for a := t.stack.guest(); a != nil && a.counted && a.depth >= depth; a = t.stack.guest() {
		t.leaveTo(len(t.stack.calls) - 1)
	}
	if t.stack.guest() == nil || !stack.Next() {
		return unknownCaller
	}
	at := t.site(stack)
	if at == unknownCaller {
		return at
	}
	for a := t.stack.guest(); a != nil && a.frame.Method != at.Method; a = t.stack.guest() {
		t.leaveTo(len(t.stack.calls) - 1)
	}
	return at
}

// site returns the position of the stack's next frame, without the functions that
// rewriting has added.
func (t *exactThread) site(stack experimental.StackIterator) ccmap.Frame {
	for stack.Next() {
		pc := stack.ProgramCounter()
		p, ok := t.sites[pc]
		if !ok {
			p = t.module.locate(stack.Function(), pc)
			t.sites[pc] = p
		}
		switch {
		case p.foreign:
			return unknownCaller
		case !p.added:
			return p.frame
		}
	}
	return unknownCaller
}

// clockEvery is the number of samples with the same time. Reading the clock for each
// would take a fifth of the cost of a call.
const clockEvery = 64

// pushSample pushes an activation's sample, and waits for room.
func (t *exactThread) pushSample(s *ccmap.Sample) {
	if t.due--; t.due < 0 {
		t.due = clockEvery
		s.Time = t.exact.clock.Now()
	}
	if t.lane.ring.PushWaiting(s, t.exact.giveUp) {
		t.exact.pushed.Add(1)
	}
}

// stop reports all activations as they are. Nothing is recorded from then on.
func (t *exactThread) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.points != nil {
		global(t.instance, rewrite.PointsGlobal).Set(0)
		t.points.Detach()
	}
	if t.open() {
		t.spend()
		t.stack.flush(t.push)
		t.exact.giveBack(t.lane)
		t.lane = nil
	}
}
