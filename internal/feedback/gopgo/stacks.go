package gopgo

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
)

// StackUse is how much stack a build takes where a profile has samples, bytes.
type StackUse struct {
	Deepest int64   // of all samples
	Mean    float64 // of samples
}

// StackUse adds up the frames of each stack of a profile, as the build would have them: calls that it inlines take
// none. What runs on the stacks of threads is left out. ok is false if the profile has no whole stacks.
func (b *Build) StackUse(s *ccmap.Snapshot) (use StackUse, ok bool) {
	if HasRanks(s.Meta()) {
		return use, false
	}
	var sum float64
	samples := int64(0)
	w := stackWalk{build: b, from: s, names: make([]string, s.Names().Len()), at: make([]stackAt, s.Len())}
	depth := 0
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		is := w.enter(n)
		w.at[n.ID] = is
		if n.Self.Samples > 0 {
			use.Deepest = max(use.Deepest, is.bytes)
			sum += float64(is.bytes) * float64(n.Self.Samples)
			samples = add(samples, n.Self.Samples)
			depth = max(depth, is.depth)
		}
	}
	const framesOfEdges = 2
	if samples == 0 || depth <= framesOfEdges {
		return use, false
	}
	use.Mean = sum / float64(samples)
	return use, true
}

// stackWalk walks a profile's nodes, parents first.
type stackWalk struct {
	build *Build
	from  *ccmap.Snapshot
	names []string  // plain, by method; "": not asked yet
	at    []stackAt // by node
}

// stackAt is what a node of a profile has below it.
type stackAt struct {
	in     string // the function with the code
	bytes  int64
	depth  int
	thread bool // on the stack of a thread
}

func (w *stackWalk) name(id ccmap.MethodID) string {
	if w.names[id] == "" {
		w.names[id] = plainName(w.from.Names().At(id).Name)
	}
	return w.names[id]
}

// enter returns a node's stack.
func (w *stackWalk) enter(n ccmap.Node) stackAt {
	is := w.at[n.Parent]
	if n.IsPosition() {
		return is
	}
	name := w.name(n.Method)
	is.depth++
	if n.Parent != 0 && w.build.inlines(is.in, place{w.name(w.from.Node(n.Parent).Method), n.Offset}, name) {
		return is
	}
	is.in = name
	if is.thread = is.thread || switchesStack[name]; !is.thread {
		is.bytes = add(is.bytes, w.build.functions[name].frame)
	}
	return is
}

// inlines reports whether the code of a function has a call inlined.
func (b *Build) inlines(in string, at place, callee string) bool {
	for _, c := range b.calls[at] {
		if c.in == in && c.callee == callee && c.kind == gosym.InlinedCall {
			return true
		}
	}
	return false
}

// switchesStack are functions whose callees run on the stack of a thread.
var switchesStack = map[string]bool{
	"runtime.systemstack": true, "runtime.mcall": true, "runtime.asmcgocall": true, "runtime.sigtramp": true, "runtime.morestack": true,
}
