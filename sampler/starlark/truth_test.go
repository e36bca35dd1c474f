package starlark

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// observer knows the truth of a run. It sees every step, as the embedder's own
// OnMaxSteps, and marks the profiler at some of them. It learns activations from hit, a
// builtin that every function of the program calls first.
type observer struct {
	profiler *managed.Profiler
	options  Options
	marks    *rand.Rand // nil: every step
	names    methods

	began    map[string]int64 // activations, by method
	contexts map[string]int64 // samples, by stack
	folded   *ccmap.Map
	samples  []ccmap.Sample // without frames
}

func newObserver(marks *rand.Rand) *observer {
	p := managed.New(managed.Options{Interval: -1})
	return &observer{
		profiler: p,
		options:  Options{Exact: true},
		marks:    marks,
		names:    newMethods(p.Sink().Names),
		began:    make(map[string]int64),
		contexts: make(map[string]int64),
		folded:   ccmap.New(ccmap.Options{Names: p.Sink().Names}),
	}
}

// thread returns a thread with the observer.
func (o *observer) thread() *starlark.Thread {
	thread := &starlark.Thread{Name: "observed", OnMaxSteps: o.step}
	thread.Load = func(thread *starlark.Thread, module string) (starlark.StringDict, error) {
		return nil, fmt.Errorf("no module %q", module)
	}
	thread.SetMaxExecutionSteps(1)
	return thread
}

func (o *observer) step(thread *starlark.Thread) {
	if o.marks == nil || o.marks.IntN(4) == 0 {
		o.profiler.Mark(1)
		if o.profiler.Stats().Threads > 0 {
			o.contexts[o.context(thread)]++
		}
	}
	o.drain()
}

func (o *observer) drain() {
	o.profiler.Sink().Queue.Drain(func(s *ccmap.Sample) {
		o.folded.Fold(s)
		kept := *s
		kept.Frames = nil
		o.samples = append(o.samples, kept)
	})
}

func (o *observer) context(thread *starlark.Thread) string {
	var names []string
	for i := range thread.CallStackDepth() {
		names = append(names, o.method(thread, i))
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

func (o *observer) method(thread *starlark.Thread, frame int) string {
	id := o.names.of(thread.DebugFrame(frame).Callable())
	return o.profiler.Sink().Names.At(id).Name
}

// predeclared are the builtins of the programs.
func (o *observer) predeclared() starlark.StringDict {
	return starlark.StringDict{
		"hit":     starlark.NewBuiltin("hit", o.hit),
		"twice":   starlark.NewBuiltin("twice", twice),
		"attempt": starlark.NewBuiltin("attempt", attempt),
		"both":    starlark.NewBuiltin("both", both),
		"box":     starlark.NewBuiltin("each", twice).BindReceiver(starlark.NewList(nil)),
	}
}

func (o *observer) hit(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	o.began[o.method(thread, 1)]++
	return starlark.None, nil
}

// twice calls its argument, then again.
func twice(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if _, err := starlark.Call(thread, args[0], args[1:], nil); err != nil {
		return nil, err
	}
	return starlark.Call(thread, args[0], args[1:], nil)
}

// both calls its first two arguments with the third.
func both(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if _, err := starlark.Call(thread, args[0], args[2:], nil); err != nil {
		return nil, err
	}
	return starlark.Call(thread, args[1], args[2:], nil)
}

// attempt calls all its arguments, until one succeeds.
func attempt(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	for _, f := range args {
		if v, err := starlark.Call(thread, f, nil, nil); err == nil {
			return v, nil
		}
	}
	return starlark.None, nil
}

var dialect = &syntax.FileOptions{While: true, Recursion: true, TopLevelControl: true, GlobalReassign: true}

// run executes the program on an observed thread, and returns the folded map.
func (o *observer) run(t rapid.TB, program string) *ccmap.Snapshot {
	t.Helper()
	thread := o.thread()
	attached := Attach(o.profiler, thread, o.options)
	_, err := starlark.ExecFileOptions(dialect, thread, "p.star", program, o.predeclared())
	attached.Detach()
	if err != nil {
		t.Fatalf("%v\n%s", err, program)
	}
	return o.snapshot(t)
}

func (o *observer) snapshot(t rapid.TB) *ccmap.Snapshot {
	t.Helper()
	o.drain()
	s := o.folded.Snapshot()
	if err := s.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkContexts fails if the map has other contexts than the marks, or another number of
// samples of one.
func (o *observer) checkContexts(t rapid.TB, s *ccmap.Snapshot) {
	t.Helper()
	got := make(map[string]int64)
	for n := range s.Nodes() {
		if n.Self.Samples > 0 {
			got[path(s, n)] += n.Self.Samples
		}
	}
	if diff := cmp.Diff(o.contexts, got); diff != "" {
		t.Errorf("samples of contexts (-true +sampled):\n%s", diff)
	}
}

func path(s *ccmap.Snapshot, n ccmap.Node) string {
	var names []string
	for ; n.ID != s.Node(n.ID).Parent; n = s.Node(n.Parent) {
		if n.Method != ccmap.NoMethod {
			names = append(names, s.Names().At(n.Method).Name)
		}
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

// sampled returns the map's activations of each method.
func sampled(s *ccmap.Snapshot) map[string]int64 {
	counts := make(map[string]int64)
	for m := range s.Methods() {
		counts[m.Method().Name] = m.Cumulative().Activations
	}
	return counts
}
