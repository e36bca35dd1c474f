package wasm

import (
	"context"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// entry listens on an entry function: one that hosts call.
type entry struct {
	module   *module
	function uint32 // of the original
}

// entered is an unfinished entry: a segment of the instance's stack. Each segment runs on
// its own stack of wazero's, unless another module has made the call.
type entered struct {
	entry  *entry                     // nil: a function from a table, for which wazero calls no listener
	stack  experimental.StackIterator // of the call: each of wazero's stacks has one
	base   int                        // activations below
	direct bool                       // another module has called, on the same stack

	// sampled: the mark of the first activation belongs to this segment. replaced: the
	// entry's activation has made a tail call, and another took its place.
	sampled, replaced bool

	// calling: the segment has called host, after an announcement; frames, from depth
	// down, are below that call. cut: there are more frames, which are unknown.
	calling  bool
	host     uint32
	hostMark managed.Mark
	frames   []position // innermost first
	depth    int
	cut      bool
}

// Before implements [experimental.FunctionListener].
func (e *entry) Before(_ context.Context, guest api.Module, _ api.FunctionDefinition, _ []uint64, stack experimental.StackIterator) {
	in := e.module.profiler.instances.get(guest)
	if in == nil {
		in = e.module.newInstance(guest)
	}
	if in != nil {
		in.enter(e, stack)
	}
}

// After implements [experimental.FunctionListener].
func (e *entry) After(_ context.Context, guest api.Module, _ api.FunctionDefinition, _ []uint64) {
	if in := e.module.profiler.instances.get(guest); in != nil {
		in.returnFrom(e)
	}
}

// Abort implements [experimental.FunctionListener]. wazero names the module that the host
// has called. If another module has made the call, Abort searches for it.
func (e *entry) Abort(_ context.Context, guest api.Module, _ api.FunctionDefinition, _ error) {
	in := e.module.profiler.instances.get(guest)
	if in == nil || in.module != e.module {
		in = e.calledDirectly()
	}
	if in != nil {
		in.abort(e)
	}
}

// calledDirectly returns the instance that another module has entered here. It returns
// nil if there are several, which notice the end at their next entry.
func (e *entry) calledDirectly() (found *instance) {
	several := false
	e.module.profiler.instances.each(func(in *instance) {
		if in.module == e.module && in.enteredDirectly(e) {
			several = several || found != nil
			found = in
		}
	})
	if several {
		return nil
	}
	return found
}

// enter begins a segment.
func (in *instance) enter(e *entry, stack experimental.StackIterator) {
	in.mu.Lock()
	defer in.mu.Unlock()
	stack.Next() // the entry
	direct := stack.Next()
	if len(in.entries) > 0 {
		in.reconcile(stack, direct)
	}
	if len(in.entries) == 0 {
		in.thread.Unpark()
		in.heal(0)
		if in.marked {
			in.unmark()
		}
	}
	in.push(entered{entry: e, stack: stack, base: in.readDepth(), direct: direct})
}

// readDepth returns the number of activations below a call by the host.
func (in *instance) readDepth() int {
	return min(int(in.depth.Get()&rewrite.AllNumbers), mostActivations)
}

// push adds a segment, and reuses the memory of an ended one.
func (in *instance) push(e entered) {
	if n := len(in.entries); n < cap(in.entries) {
		e.frames = in.entries[:n+1][n].frames[:0]
	}
	in.entries = append(in.entries, e)
}

// reconcile compares a new segment with the one before. wazero reports every end but two:
// a stack overflow (v1.12.0, internal/engine/wazevo/call_engine.go: growStack's error is
// returned without a call of a listener), and the end of a function that the host found
// in a table. A host function that calls back without an announcement looks the same. All
// calls are announced from then on.
func (in *instance) reconcile(stack experimental.StackIterator, direct bool) {
	top := len(in.entries) - 1
	if !direct {
		for top >= 0 && in.entries[top].stack == stack { // called again
			top--
		}
		in.entries = in.entries[:top+1]
	}
	switch {
	case top < 0:
	case in.entries[top].isCalling(in.readDepth()):
		in.imports.calledBack(in.entries[top].host)
	case !direct && (in.dropEnded() || in.imports.unreported):
		in.healBelow()
	default:
		in.entries[top].calling = false
		in.announceAll()
	}
}

// isCalling reports whether a host function that a segment has called is still running.
// It is certain only for a segment whose end wazero reports.
func (e *entered) isCalling(depth int) bool { return e.calling && e.depth == depth && e.entry != nil }

// dropEnded drops the segments that have no stack of wazero's on this goroutine, below
// the new segment: their end was not reported. It reports whether there were any.
func (in *instance) dropEnded() bool {
	n, below := 0, callsOnStack()-1
	for n < len(in.entries) && (below > 0 || n > 0 && in.entries[n].direct) {
		if !in.entries[n].direct {
			below--
		}
		n++
	}
	dropped := n < len(in.entries)
	in.entries = in.entries[:n]
	return dropped
}

// healBelow restores the depth below a new segment, if it is known.
func (in *instance) healBelow() {
	n := len(in.entries)
	switch {
	case n == 0:
	case in.entries[n-1].calling:
		in.heal(in.entries[n-1].depth)
		in.imports.calledBack(in.entries[n-1].host)
	default:
		in.announceAll()
	}
}

// heal sets the guest's depth, the base of its callees' numbers, and lowers the number of
// activations that samples have seen.
func (in *instance) heal(depth int) {
	in.depth.Set(uint64(depth))
	in.visited.Set(min(in.visited.Get(), uint64(depth)))
}

// dropOthers drops the segments above the guest's present stack: their end was not
// reported. If the stack has no segment, an unreported one begins there.
func (in *instance) dropOthers(stack experimental.StackIterator) {
	n := len(in.entries)
	for n > 0 && in.entries[n-1].stack != stack {
		n--
	}
	if n == 0 && len(in.entries) > 0 {
		in.beginUnreported(stack)
		return
	}
	in.entries = in.entries[:n]
}

// beginUnreported adds the segment of a function that the host found in a table and calls
// back. Some of its activations may be over.
func (in *instance) beginUnreported(stack experimental.StackIterator) {
	in.dropEnded()
	n := len(in.entries)
	if n == 0 {
		return // entered from outside, or on another goroutine
	}
	base := in.entries[n-1].base
	if e := &in.entries[n-1]; e.calling {
		base = e.depth
	}
	if !in.imports.unreported {
		in.imports.unreported = true
		in.announceAll()
	}
	in.push(entered{stack: stack, base: base})
}

// callsOnStack returns the number of wazero's stacks on the goroutine.
func callsOnStack() int {
	pcs := make([]uintptr, 256)
	for runtime.Callers(2, pcs) == len(pcs) {
		pcs = make([]uintptr, 2*len(pcs))
	}
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	n := 0
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "wazevo.(*callEngine).callWithStack") {
			n++
		}
		if !more {
			return n
		}
	}
}

// returnFrom ends a segment whose entry has returned. A mark that came after the
// outermost entry's last safe point counts for the entry: if all calls are short, nothing
// else samples it. An entry that has made a tail call had already ended.
func (in *instance) returnFrom(e *entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := in.find(e)
	if i < 0 {
		return
	}
	in.entries = in.entries[:i+1]
	if i == 0 && in.marked && !in.entries[0].replaced {
		in.unmark()
		in.walk.entry = &in.entries[0]
		in.thread.Sample(in)
		in.walk.end()
	}
	in.pop()
}

// abort ends a segment whose entry will not return.
func (in *instance) abort(e *entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if i := in.find(e); i >= 0 {
		in.entries = in.entries[:i+1]
		in.pop()
	}
}

// enteredDirectly reports whether another module made an entry's last call.
func (in *instance) enteredDirectly(e *entry) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := in.find(e)
	return i >= 0 && in.entries[i].direct
}

// find returns the index of an entry's innermost segment, or -1.
func (in *instance) find(e *entry) int {
	i := len(in.entries) - 1
	for i >= 0 && in.entries[i].entry != e {
		i--
	}
	return i
}

// pop ends the innermost segment. A host function of the segment below made the call. The
// guest must report that host function's return, and it may call again.
func (in *instance) pop() {
	n := len(in.entries) - 1
	in.heal(in.entries[n].base)
	in.entries = in.entries[:n]
	switch {
	case n == 0:
		in.thread.Park()
	case in.entries[n-1].calling:
		in.poll()
	}
}

// entryFrame is the frame of an entry that is about to end. It is the outermost frame.
func (in *instance) entryFrame(e *entered) managed.Frame {
	if !e.sampled {
		in.clearMarks(e.base, max(e.base+1, len(in.marks)))
	}
	return managed.Frame{Method: in.module.method(e.entry.function), Offset: ccmap.NoOffset, Mark: in.markAt(e.base + 1)}
}
