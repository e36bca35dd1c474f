package wasm

import (
	"sync"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// exactThread records the calls of one instance, which are of one goroutine at a
// time.
//
//	exact … limit  set when it is made
//	all else       under mu: events on the guest's goroutine, stop on the session's
type exactThread struct {
	exact    *exact
	module   *module
	instance api.Module
	executed api.Global        // instructions, as the guest counts them
	depth    api.MutableGlobal // how many of its numbered activations there are, where one calls
	mark     api.MutableGlobal // set to have the next safe point call the host
	limit    api.MutableGlobal // set for that, too, where the next one is a function's entry

	mu      sync.Mutex
	stack   callStack
	entries []exactEntry                             // of hosts, that have not ended
	sites   map[experimental.ProgramCounter]position // of calls, by their return addresses
	counted uint64                                   // instructions that were given to activations
	lane    *lane                                    // while a call is under way
	due     int                                      // samples until the clock is read
	push    func(*ccmap.Sample)
	stopped bool
}

// exactEntry is a call by a host.
type exactEntry struct {
	calls int    // below it on the stack
	depth uint64 // of the guest, which it is to find again when it is called once more
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
	return t
}

// begin prepares for an event of a call that begins, and reports whether it is to
// be recorded.
func (t *exactThread) begin() bool {
	if t.stopped {
		return false
	}
	if !t.open() {
		t.lane = t.exact.take()
		t.stack.sample.Thread = t.lane.thread
		t.counted = t.executed.Get()
		t.wait(false)
	}
	t.spend()
	return true
}

// open reports whether a call is under way.
func (t *exactThread) open() bool { return t.lane != nil }

// rest gives the lane to others when no call is under way any more.
func (t *exactThread) rest() {
	if len(t.stack.calls) == 0 && len(t.entries) == 0 {
		t.exact.giveBack(t.lane)
		t.lane = nil
	}
}

// wait says whether the guest is to call the host at its next safe point: behind the
// import that it has called, or wherever it is if it is asked to.
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

// poll has the guest call the host at its next safe point, whatever that is.
func (t *exactThread) poll() {
	t.mark.Set(1)
	t.limit.Set(rewrite.AllNumbers)
}

// ask has the guest call the host at its next safe point.
func (t *exactThread) ask() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.poll()
}

// spend gives what was executed since the last event to the innermost activation.
func (t *exactThread) spend() {
	now := t.executed.Get()
	t.stack.spend(int64(now - t.counted))
	t.counted = now
}

// enterGuest is a call by a host, which is either the function that the guest has
// called last, or outside. Everything else on the stack has ended without an event.
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

// leaveGuest is the return to the host, or the trap that it gets.
func (t *exactThread) leaveGuest() {
	last := len(t.entries) - 1
	if last < 0 {
		return
	}
	calls := t.entries[last].calls
	t.leaveTo(calls)
	t.forgetEntries(calls)
	t.wait(calls > 0) // whether a host function below goes on
}

// leaveTo ends activations until so many of them are left, and the entries above.
func (t *exactThread) leaveTo(calls int) {
	t.stack.leaveTo(calls, t.push)
	t.forgetEntries(calls + 1)
}

// forgetEntries lets go of the entries above so many activations, or more.
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

// callHost begins an activation of a host function. The guest's next safe point
// then is the one behind its call.
func (t *exactThread) callHost(method ccmap.MethodID, stack experimental.StackIterator) {
	at := t.caller(uint32(t.depth.Get()), stack)
	t.stack.enter(activation{frame: ccmap.Frame{Method: method}, host: true}, at.Offset, t.push)
	t.wait(true)
}

// ended ends the innermost activation of a function, and what is above it.
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

// unknownCaller is where a call stands that is not made by code of the guest.
var unknownCaller = ccmap.Frame{Method: ccmap.NoMethod, Offset: ccmap.NoOffset}

// caller ends the activations that have made a tail call, of which wazero does not
// tell, and returns where the innermost one that is left makes the call that
// begins. The first frame of wazero's stack is the callee, or the host function
// that tells of the call.
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

// site returns where the frame calls that is the next one on the stack but those of
// functions that rewriting has added.
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

// clockEvery is how many samples have the same time: reading the clock for each
// would take a fifth of what a call costs.
const clockEvery = 64

// pushSample pushes what an activation has done, and waits for room.
func (t *exactThread) pushSample(s *ccmap.Sample) {
	if t.due--; t.due < 0 {
		t.due = clockEvery
		s.Time = t.exact.clock.Now()
	}
	if t.lane.ring.PushWaiting(s, t.exact.giveUp) {
		t.exact.pushed.Add(1)
	}
}

// stop reports all activations as they are, and records none from now on.
func (t *exactThread) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.open() {
		t.spend()
		t.stack.flush(t.push)
		t.exact.giveBack(t.lane)
		t.lane = nil
	}
}
