package wasm

import (
	"sync"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/table"
)

// instance is a module instance and its managed thread. wazero lets one goroutine at a
// time execute it. That goroutine takes its samples.
//
// The marker and the guest's goroutine take the lock, so that they do not write one
// global at the same time. If a host breaks wazero's rule, the profile is wrong, and
// nothing else. The guest's code reads and writes its globals without the lock: a word is
// written whole, and each side writes a value that the other may also find later.
//
//	module … points    written once
//	all else           under mu
type instance struct {
	module *module
	guest  api.Module
	thread *managed.Thread

	// The guest's globals: see package rewrite. A missing global is nil: calls and points,
	// if none are wanted.
	mark, calls, depth, visited, limit, announce, points api.MutableGlobal

	mu        sync.Mutex
	marked    bool           // since the last sample
	window    int            // points that are still wanted
	entries   []entered      // unfinished, outermost first
	marks     []managed.Mark // of activations, by number, the outermost first
	positions map[experimental.ProgramCounter]position
	imports   imports
	walk      walk
}

// newInstance starts to sample a guest from its first entry on. All its calls of imports
// are announced at first. It returns nil for a guest that was closed while it runs: its
// stack is no longer known.
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
		points:    global(guest, rewrite.PointsGlobal),
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

// global returns a global that rewriting adds, or nil.
func global(guest api.Module, name string) api.MutableGlobal {
	g, _ := guest.ExportedGlobal(name).(api.MutableGlobal)
	return g
}

// leave ends the sampling of a guest. It may be called again.
func (in *instance) leave() {
	in.mu.Lock()
	in.thread.Detach()
	in.mu.Unlock()
	in.module.profiler.instances.remove(in)
}

// Mark implements [managed.Hook]. A closed guest has no more safe points.
func (in *instance) Mark() {
	if in.guest.IsClosed() {
		in.leave()
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.marked = true
	in.poll()
	in.wantPoints()
}

// ask makes the guest call the host at its next safe point, without a sample.
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

// safepoint handles a guest's call at a safe point while it is marked, and its call
// before an announced import.
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

// poll makes the guest call the host at its next safe point. The order of the two writes
// matters to a guest that enters a function meanwhile: see [Profiler.ask].
func (in *instance) poll() {
	in.mark.Set(1)
	in.limit.Set(rewrite.AllNumbers)
}

// unmark removes the mark, unless guests must stay at their safe points or end.
func (in *instance) unmark() {
	in.marked = false
	if in.module.profiler.calling() {
		return
	}
	in.mark.Set(0)
	in.limit.Set(in.visited.Get())
}

// called handles a guest's call before an indirect call, while calls are wanted.
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

// arrive begins a walk of a stack with number activations. It finds out which of them a
// sample has seen, and clears the marks of the others.
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

// mostActivations bounds the memory of their marks. wazero's stacks are less deep, but
// another module can write the guest's globals.
const mostActivations = 1 << 24

// see tells the guest how many of its activations samples have seen. Limit must never be
// less, or a new activation would count as seen. While Mark is set, the guest may have
// overwritten Limit.
func (in *instance) see(activations int) {
	limit := uint64(activations)
	if in.mark.Get() != 0 {
		limit = rewrite.AllNumbers
	}
	in.visited.Set(uint64(activations))
	in.limit.Set(limit)
}

// returned notes that the guest executes again: if it called an announced import, that
// import has returned. After its call, its frame is the innermost one.
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

// clearMarks makes room for the marks of number activations. It keeps the marks of the
// first seen ones, and clears the others.
func (in *instance) clearMarks(seen, number int) {
	if number > len(in.marks) {
		in.marks = append(in.marks, make([]managed.Mark, number-len(in.marks))...)
	}
	clear(in.marks[seen:number])
}

// markAt returns the mark of the activation with a number.
func (in *instance) markAt(number int) *managed.Mark { return &in.marks[number-1] }

// next returns the position of the stack's next frame.
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

// instances are the module instances that run code of the profiler's modules. Any
// goroutine may use them.
//
//	of           by api.Module
//	added        instances since the last sweep
//	kept         instances after the last sweep
type instances struct {
	of    sync.Map // api.Module → *instance
	added atomic.Int64
	kept  atomic.Int64
}

// get returns the instance of a guest, or nil before its first entry.
func (is *instances) get(guest api.Module) *instance {
	in, ok := is.of.Load(guest)
	if !ok {
		return nil
	}
	return in.(*instance)
}

// put adds an instance, and reports false if its guest has one. When enough instances
// were added, put looks for closed ones. The marker does so too, but only while it runs.
func (is *instances) put(in *instance) bool {
	if _, there := is.of.LoadOrStore(in.guest, in); there {
		return false
	}
	if added := is.added.Add(1); added > is.kept.Load()+mostClosed {
		is.sweep()
	}
	return true
}

// mostClosed is the least number of new instances before put looks for closed ones.
const mostClosed = 64

func (is *instances) sweep() {
	is.added.Store(0)
	kept := int64(0)
	is.each(func(in *instance) {
		if in.guest.IsClosed() {
			in.leave()
		} else {
			kept++
		}
	})
	is.kept.Store(kept)
}

func (is *instances) remove(in *instance) { is.of.CompareAndDelete(in.guest, in) }

func (is *instances) each(f func(*instance)) {
	is.of.Range(func(_, in any) bool {
		f(in.(*instance))
		return true
	})
}

// instanceOf returns the instance of a guest at a safe point, and nil for a guest that is
// not sampled. If the guest was entered through another guest's table, only the frame at
// the safe point shows its module; it is sampled from the next mark on.
func (p *Profiler) instanceOf(guest api.Module, stack experimental.StackIterator) *instance {
	if in := p.instances.get(guest); in != nil {
		return in
	}
	global(guest, rewrite.MarkGlobal).Set(0)
	stack.Next() // the host function
	if !stack.Next() {
		return nil
	}
	def := stack.Function().Definition()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.modules {
		if !m.owns(def) {
			continue
		}
		if in := m.newInstance(guest); in != nil {
			in.thread.Unpark() // this walk has used up the stack
		}
		return nil
	}
	return nil
}

// target returns the method that an indirect call will reach, and false if the call will
// trap.
func (in *instance) target(site, element uint32) (ccmap.MethodID, bool) {
	f := in.lookUp(site, element)
	if f == nil {
		return ccmap.NoMethod, false
	}
	def := f.Definition()
	if in.module.owns(def) {
		if original, ok := in.module.rewritten.Function(def.Index()); ok {
			return in.module.method(original), true
		}
	}
	return in.module.profiler.Sink().Names.Intern(ccmap.Method{Name: def.DebugName()}), true
}

// lookUp finds the function. It returns nil where wazero panics: the element is out of
// range, or has another type.
func (in *instance) lookUp(site, element uint32) (f api.Function) {
	defer func() {
		if recover() != nil {
			f = nil
		}
	}()
	s := in.module.rewritten.Sites[site]
	return table.LookupFunction(in.guest, s.Table, element, s.Params, s.Results)
}
