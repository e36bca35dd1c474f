package starlark

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/starlark"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

func TestStepLimitIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.Just(uint64(0)), rapid.Just(uint64(math.MaxUint64)), rapid.Uint64()).Draw(t, "limit")
		guess := rapid.OneOf(rapid.Just(limit), rapid.Uint64()).Draw(t, "guess")
		thread := &starlark.Thread{Steps: rapid.Uint64().Draw(t, "steps")}
		steps := thread.Steps
		_, _ = starlark.Call(thread, starlark.NewBuiltin("", nothing), nil, nil) // has run before
		thread.SetMaxExecutionSteps(limit)
		if rapid.Bool().Draw(t, "cancelled") {
			thread.Cancel("before")
		}
		if got := stepLimit(thread, guess); got != limit {
			t.Errorf("the limit is %d, not %d", got, limit)
		}
		if thread.Steps != steps || thread.OnMaxSteps != nil {
			t.Error("the thread is not as it was")
		}
	})
}

func nothing(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return starlark.None, nil
}

func TestThreadWithoutLimit(t *testing.T) {
	t.Parallel()
	if got := stepLimit(new(starlark.Thread), unlimited); got != unlimited {
		t.Errorf("the limit is %d, want none", got)
	}
}

const endless = `
def endless():
    n = 0
    while True:
        n += 1
endless()
`

// outcome is the embedder's view of a run.
type outcome struct {
	Error   string
	Steps   uint64
	Reached []uint64 // steps with a call of OnMaxSteps
	After   uint64   // the thread's limit afterwards
}

// bothOptions are all options.
var bothOptions = []*Options{{}, {Exact: true}}

// embedder is a program's host, with a limit of its own.
type embedder struct {
	limit    uint64
	callback string   // what OnMaxSteps does
	repeat   int      // number of times, before it cancels
	options  *Options // of the profiler; nil: not profiled
}

func embedders() *rapid.Generator[embedder] {
	return rapid.Custom(func(t *rapid.T) embedder {
		return embedder{
			limit:    rapid.Uint64Range(0, 300).Draw(t, "limit"),
			callback: rapid.SampledFrom([]string{"", "extend", "lower", "ignore", "replace", "recount"}).Draw(t, "callback"),
			repeat:   rapid.IntRange(0, 20).Draw(t, "repeat"),
			options:  rapid.SampledFrom(bothOptions).Draw(t, "options"),
		}
	})
}

// run executes a program that does not end by itself.
func (e embedder) run() (o outcome) {
	thread := new(starlark.Thread)
	_, _ = starlark.Call(thread, starlark.NewBuiltin("", nothing), nil, nil)
	thread.SetMaxExecutionSteps(e.limit)
	if e.callback != "" {
		thread.OnMaxSteps = func(thread *starlark.Thread) { e.reached(thread, &o) }
	}
	if e.options != nil {
		attached := Attach(managed.New(managed.Options{Interval: -1}), thread, *e.options)
		defer func() {
			attached.Detach()
			o.After = stepLimit(thread, 0)
		}()
	}
	_, err := starlark.ExecFileOptions(dialect, thread, "p.star", endless, nil)
	o.Error, o.Steps, o.After = err.Error(), thread.Steps, stepLimit(thread, 0)
	return o
}

func (e embedder) reached(thread *starlark.Thread, o *outcome) {
	o.Reached = append(o.Reached, thread.Steps)
	if len(o.Reached) > e.repeat {
		thread.Cancel("enough")
		return
	}
	switch e.callback {
	case "extend":
		thread.SetMaxExecutionSteps(thread.Steps + 17)
	case "lower":
		thread.SetMaxExecutionSteps(thread.Steps / 2)
	case "replace":
		thread.OnMaxSteps = func(thread *starlark.Thread) { thread.Cancel("replaced") }
	case "recount":
		thread.Steps = 0
	}
}

func TestEmbeddersLimitWorksAsBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		profiled := embedders().Draw(t, "embedder")
		plain := profiled
		plain.options = nil
		if diff := cmp.Diff(plain.run(), profiled.run()); diff != "" {
			t.Errorf("with the profiler it differs (-without +with):\n%s", diff)
		}
	})
}

// A builtin sets a limit, or resets the count, while the thread is sampled.
func TestLimitSetMeanwhile(t *testing.T) {
	t.Parallel()
	for _, o := range bothOptions {
		for name, change := range map[string]func(*starlark.Thread){
			"limit": func(thread *starlark.Thread) { thread.SetMaxExecutionSteps(5000) },
			"count": func(thread *starlark.Thread) { thread.Steps += 1000; thread.SetMaxExecutionSteps(6000) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if diff := cmp.Diff(changedMeanwhile(change, nil), changedMeanwhile(change, o)); diff != "" {
					t.Errorf("with the profiler it differs (-without +with):\n%s", diff)
				}
			})
		}
	}
}

func changedMeanwhile(change func(*starlark.Thread), o *Options) outcome {
	thread := new(starlark.Thread)
	if o != nil {
		defer Attach(managed.New(managed.Options{Interval: -1}), thread, *o).Detach()
	}
	predeclared := starlark.StringDict{
		"change": starlark.NewBuiltin("change", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			change(thread)
			return starlark.None, nil
		}),
	}
	_, err := starlark.ExecFileOptions(dialect, thread, "p.star", "change()\n"+endless, predeclared)
	return outcome{Error: err.Error(), Steps: thread.Steps}
}

// After steps that the profiler misses, contexts are still right.
func TestStackAfterLimitSetMeanwhile(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	predeclared := o.predeclared()
	predeclared["change"] = starlark.NewBuiltin("change", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		thread.SetMaxExecutionSteps(thread.Steps + 100)
		return starlark.None, nil
	})
	thread := o.thread()
	attached := Attach(o.profiler, thread, Options{Exact: true})
	const program = `
def q():
    change()
def p():
    q()
def s():
    hit()
    for i in range(1000): pass
def r():
    s()
p()
r()
r()
`
	if _, err := starlark.ExecFileOptions(dialect, thread, "p.star", program, predeclared); err != nil {
		t.Fatal(err)
	}
	attached.Detach()
	s := o.snapshot(t)
	o.checkContexts(t, s)
	if got := sampled(s)["p.star:s"]; got != 2 {
		t.Errorf("%d activations of s were sampled, want 2", got)
	}
}

func TestPanicAtLimit(t *testing.T) {
	t.Parallel()
	thread := &starlark.Thread{OnMaxSteps: func(*starlark.Thread) { panic("enough") }}
	thread.SetMaxExecutionSteps(100)
	attached := Attach(managed.New(managed.Options{Interval: -1}), thread, Options{})
	defer attached.Detach()
	defer func() {
		if got := recover(); got != "enough" || thread.Steps != 100 {
			t.Errorf("panic of %v at step %d, want enough at 100", got, thread.Steps)
		}
	}()
	_, err := starlark.ExecFileOptions(dialect, thread, "p.star", endless, nil)
	t.Errorf("the run ended with %v instead of panicking", err)
}

func TestDetachAtLimit(t *testing.T) {
	t.Parallel()
	var attached *Thread
	thread := &starlark.Thread{OnMaxSteps: func(thread *starlark.Thread) {
		attached.Detach()
		thread.SetMaxExecutionSteps(200)
		thread.OnMaxSteps = nil
	}}
	thread.SetMaxExecutionSteps(100)
	attached = Attach(managed.New(managed.Options{Interval: -1}), thread, Options{})
	_, err := starlark.ExecFileOptions(dialect, thread, "p.star", endless, nil)
	if err == nil || thread.Steps != 200 {
		t.Errorf("the run ended at step %d with %v, want 200", thread.Steps, err)
	}
}
