package wasm

import (
	"sync"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// instance is a module instance and its managed thread. wazero lets one goroutine at
// a time execute it, which is the one that takes its samples.
//
// The lock is the marker's and the guest's, so that the two do not write one global
// at once; where a host breaks wazero's rule, the profile is wrong and nothing worse.
// The guest's own code reads and writes its globals without it: a word is written
// whole, and each side writes what the other may find later.
//
//	module … announce  written once
//	all else           under mu
type instance struct {
	module *module
	guest  api.Module
	thread *managed.Thread

	// The guest's globals: see package rewrite. Nil: it has none, calls where none
	// are to be caught.
	mark, calls, depth, visited, limit, announce api.MutableGlobal

	mu        sync.Mutex
	marked    bool           // since the last sample
	entries   []entered      // that have not ended, outermost first
	marks     []managed.Mark // of activations, by number, the outermost first
	positions map[experimental.ProgramCounter]position
	imports   imports
	walk      walk
}

// newInstance begins to sample a guest, once it is entered. Its calls are announced, at
// first. It returns nil for a guest that has been closed while it runs: what was known
// of its stack is gone.
func (m *module) newInstance(guest api.Module) *instance {
	if guest.IsClosed() {
		return nil
	}
	in := &instance{
		module:    m,
		guest:     guest,
		mark:      global(guest, rewrite.MarkGlobal),
		calls:     global(guest, rewrite.CallsGlobal),
		depth:     global(guest, rewrite.DepthGlobal),
		visited:   global(guest, rewrite.VisitedGlobal),
		limit:     global(guest, rewrite.LimitGlobal),
		announce:  global(guest, rewrite.AnnounceGlobal),
		positions: make(map[experimental.ProgramCounter]position),
	}
	in.imports.init(m)
	in.thread = m.profiler.Attach(managed.ThreadOptions{Hook: in})
	in.thread.Park()
	if !m.profiler.instances.put(in) {
		in.thread.Detach()
		return m.profiler.instances.get(guest)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.poll()
	in.unmark()
	return in
}

// global returns one of the globals that rewriting adds, nil if it has not.
func global(guest api.Module, name string) api.MutableGlobal {
	g, _ := guest.ExportedGlobal(name).(api.MutableGlobal)
	return g
}

// leave ends the sampling of a guest. It may be called again.
func (in *instance) leave() {
	in.thread.Detach()
	in.module.profiler.instances.remove(in)
}

// Mark implements [managed.Hook]. A guest that was closed has no more safe points.
func (in *instance) Mark() {
	if in.guest.IsClosed() {
		in.leave()
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.marked = true
	in.poll()
}

// ask has the guest call the host at its next safe point, for no sample.
func (in *instance) ask() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.poll()
}

// WantCalls implements [managed.Hook].
func (in *instance) WantCalls() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.calls.Set(1)
}

// safepoint is what the guest calls at a safe point while it is marked, and before
// calls of imports that are announced.
func (in *instance) safepoint(reason uint32, number int, stack experimental.StackIterator) {
	in.mu.Lock()
	defer in.mu.Unlock()
	k, before, imported := rewrite.Import(reason)
	if imported && before {
		in.announced(k, number, stack)
		return
	}
	in.unmark()
	in.dropOthers(stack)
	in.arrive(stack, number)
	in.walk.entering = reason == rewrite.ReasonEntry
	if imported {
		in.walk.host = int64(k)
	}
	in.returned()
	if in.thread.Sample(in) {
		in.poll()
	}
	in.walk.end()
}

// poll has the guest call the host at its next safe point. The order of the two is for a
// guest that enters a function meanwhile: see [Profiler.ask].
func (in *instance) poll() {
	in.mark.Set(1)
	in.limit.Set(rewrite.AllNumbers)
}

// unmark takes the mark away, unless guests are to stay at their safe points, or to end.
func (in *instance) unmark() {
	in.marked = false
	if in.module.profiler.calling() {
		return
	}
	in.mark.Set(0)
	in.limit.Set(in.visited.Get())
}

// called is what the guest calls before an indirect call while calls are wanted.
func (in *instance) called(site, element uint32, number int, stack experimental.StackIterator) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if target, ok := in.target(site, element); ok && in.thread.CallsWanted() {
		in.dropOthers(stack)
		in.arrive(stack, number)
		more := in.thread.Called(target, in)
		in.walk.end()
		if more {
			return
		}
	}
	if !in.thread.CallsWanted() {
		in.calls.Set(0)
	}
}

// arrive begins a walk of the stack, which has so many activations: it finds out which
// of them a sample has seen, and clears the marks of the others.
func (in *instance) arrive(stack experimental.StackIterator, number int) {
	w := &in.walk
	w.begin(stack)
	stack.Next() // the host function
	for w.top, w.more = in.next(stack); w.more && w.top.added; {
		w.top, w.more = in.next(stack)
	}
	number = min(number, mostActivations)
	w.number = number
	seen := min(int(uint32(in.visited.Get())), number)
	in.clearMarks(seen, number)
	in.see(number)
	if n := len(in.entries); n > 0 {
		e := &in.entries[n-1]
		e.replaced = e.replaced || e.sampled && seen <= e.base
		e.sampled = true
	}
}

// mostActivations bounds the memory of their marks. wazero's stacks are not so deep, but
// another module can write the guest's globals.
const mostActivations = 1 << 24

// see tells the guest how many of its activations samples have seen. Limit must never be
// less, or an activation that begins would be taken for one that was seen: while Mark is
// set, the guest may have lost what it was set to.
func (in *instance) see(activations int) {
	limit := uint64(activations)
	if in.mark.Get() != 0 {
		limit = rewrite.AllNumbers
	}
	in.visited.Set(uint64(activations))
	in.limit.Set(limit)
}

// returned notes that the guest executes again, if an imported function was announced:
// that has returned. Behind its call, its frame is the innermost one.
func (in *instance) returned() {
	n := len(in.entries)
	if n == 0 || !in.entries[n-1].calling {
		return
	}
	e := &in.entries[n-1]
	e.calling = false
	if in.walk.host == int64(e.host) {
		in.walk.returned = e.hostMark
	}
}

// clearMarks makes room for the marks of so many activations, and clears those above
// the ones that samples have seen.
func (in *instance) clearMarks(seen, number int) {
	if number > len(in.marks) {
		in.marks = append(in.marks, make([]managed.Mark, number-len(in.marks))...)
	}
	clear(in.marks[seen:number])
}

// markAt returns the mark of the activation of a number.
func (in *instance) markAt(number int) *managed.Mark { return &in.marks[number-1] }

// next returns what the stack's next frame is.
func (in *instance) next(stack experimental.StackIterator) (position, bool) {
	if !stack.Next() {
		return position{}, false
	}
	pc := stack.ProgramCounter()
	at, ok := in.positions[pc]
	if !ok {
		if at = in.module.locate(stack.Function(), pc); !at.foreign {
			in.positions[pc] = at
		}
	}
	return at, true
}

// hostFrame is the frame of an imported function.
func (in *instance) hostFrame(k uint32, mark *managed.Mark) managed.Frame {
	return managed.Frame{Method: in.module.method(k), Offset: ccmap.NoOffset, Mark: mark}
}
