package starlark

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/managed/managedtest"
	"github.com/google/go-cmp/cmp"
	"go.starlark.net/starlark"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// marked runs f while a marker marks as fast as it can, and returns the profile.
func marked(t *testing.T, f func(*managed.Profiler)) *ccmap.Snapshot {
	t.Helper()
	p := managed.New(managed.Options{Interval: managed.MinInterval})
	ctx, stop := context.WithCancel(t.Context())
	var marker sync.WaitGroup
	marker.Go(func() {
		if _, err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	f(p)
	stop()
	marker.Wait()
	folded := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	p.Sink().Queue.Drain(folded.Fold)
	s := folded.Snapshot()
	if err := s.CheckValid(); err != nil {
		t.Error(err)
	}
	return s
}

// until is a builtin that is true after a number of samples.
func until(p *managed.Profiler, samples uint64) *starlark.Builtin {
	return starlark.NewBuiltin("enough", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return starlark.Bool(p.Stats().Counts[sampler.Samples] >= samples), nil
	})
}

const busy = `
def work():
    return [i * i for i in range(50)]

def main():
    while not enough():
        work()
main()
`

func TestParallelThreads(t *testing.T) {
	t.Parallel()
	const threads = 8
	s := marked(t, func(p *managed.Profiler) {
		var running sync.WaitGroup
		for i := range threads {
			running.Go(func() {
				thread := &starlark.Thread{Name: fmt.Sprint(i)}
				defer Attach(p, thread, Options{Exact: i%2 == 0}).Detach()
				_, err := starlark.ExecFileOptions(dialect, thread, "busy.star", busy, starlark.StringDict{"enough": until(p, 50)})
				if err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if got := p.Stats().Threads; got != 0 {
			t.Errorf("%d threads are attached still", got)
		}
	})
	for m := range s.Methods() {
		if name := m.Method().Name; !strings.HasPrefix(name, "busy.star:") {
			t.Errorf("unexpected method %s", name)
		}
	}
	if got := s.Total().Samples; got < 50 {
		t.Errorf("%d samples, want 50 or more", got)
	}
}

// After any end of a run, the thread can run again, and is sampled right.
func TestThreadGoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	thread := o.thread()
	attached := Attach(o.profiler, thread, Options{Exact: true})
	predeclared := o.predeclared()
	predeclared["panics"] = starlark.NewBuiltin("panics", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		panic("in a builtin")
	})
	predeclared["cancel"] = starlark.NewBuiltin("cancel", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		thread.Cancel("by a builtin")
		return starlark.None, nil
	})
	for i, last := range []string{"f(3)", "f(panics)", "f(cancel)", "f(fail)", "f(3)()"} {
		program := "def g(x):\n    hit()\n    return x() if type(x) != 'int' else x\ndef f(x):\n    hit()\n    return g(x)\nhit()\n" + last
		execute(thread, fmt.Sprintf("p%d.star", i), program, predeclared)
	}
	attached.Detach()
	s := o.snapshot(t)
	o.checkContexts(t, s)
	for method, n := range sampled(s) {
		if n != o.began[method] && strings.HasPrefix(method, "p") {
			t.Errorf("%d activations of %s, want %d", n, method, o.began[method])
		}
	}
}

// execute runs a program that may fail, panic or be cancelled.
func execute(thread *starlark.Thread, file, program string, predeclared starlark.StringDict) {
	defer func() { _ = recover() }()
	defer thread.Uncancel()
	_, _ = starlark.ExecFileOptions(dialect, thread, file, program, predeclared)
}

func TestCancelFromOutside(t *testing.T) {
	t.Parallel()
	s := marked(t, func(p *managed.Profiler) {
		thread := new(starlark.Thread)
		defer Attach(p, thread, Options{}).Detach()
		var ended sync.WaitGroup
		ended.Go(func() {
			for p.Stats().Counts[sampler.Samples] < 3 {
				time.Sleep(time.Millisecond)
			}
			thread.Cancel("enough")
		})
		_, err := starlark.ExecFileOptions(dialect, thread, "endless.star", endless, nil)
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("the run ended with %v, want a cancellation", err)
		}
		ended.Wait()
	})
	if got := s.Total().Samples; got < 3 {
		t.Errorf("%d samples, want 3 or more", got)
	}
}

// A builtin may attach the thread that it runs on, and detach it.
func TestAttachDuringRun(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	var attached *Thread
	predeclared := o.predeclared()
	predeclared["attach"] = starlark.NewBuiltin("attach", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		attached = Attach(o.profiler, thread, Options{Exact: true})
		return starlark.None, nil
	})
	predeclared["detach"] = starlark.NewBuiltin("detach", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		attached.Detach()
		return starlark.None, nil
	})
	const program = "def f():\n    hit()\ndef g():\n    attach()\n    f()\n    detach()\n    f()\n    hit()\ng()\ng()\nhit()\n"
	if _, err := starlark.ExecFileOptions(dialect, o.thread(), "p.star", program, predeclared); err != nil {
		t.Fatal(err)
	}
	attached.Detach()
	s := o.snapshot(t)
	o.checkContexts(t, s)
	if got := sampled(s)["p.star:f"]; got != 2 {
		t.Errorf("%d activations of f were sampled, want those 2 that began while attached", got)
	}
}

// An activation is counted once, for any number of attachments of its thread in the
// middle of it.
func TestAttachAgain(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	predeclared := o.predeclared()
	thread := o.thread()
	attached := Attach(o.profiler, thread, Options{Exact: true})
	predeclared["again"] = starlark.NewBuiltin("again", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		attached.Detach()
		attached = Attach(o.profiler, thread, Options{Exact: true})
		return starlark.None, nil
	})
	const program = "def g():\n    hit()\ndef f():\n    hit()\n    again()\n    g()\n    again()\n    g()\nhit()\nf()\nagain()\nf()\n"
	for _, file := range []string{"p.star", "q.star"} {
		if _, err := starlark.ExecFileOptions(dialect, thread, file, program, predeclared); err != nil {
			t.Fatal(err)
		}
	}
	attached.Detach()
	s := o.snapshot(t)
	o.checkContexts(t, s)
	if diff := cmp.Diff(o.began, sampled(s)); diff != "" {
		t.Errorf("activations (-true +sampled):\n%s", diff)
	}
}

// A loop with any fixed number of steps is sampled everywhere.
func TestSafePointsAreSpread(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: -1})
	thread := new(starlark.Thread)
	attached := Attach(p, thread, Options{})
	sampled := make(map[string]int) // in the function itself
	mark := starlark.NewBuiltin("mark", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		p.Mark(1)
		p.Sink().Queue.Drain(func(s *ccmap.Sample) { sampled[p.Sink().Names.At(s.Frames[0].Method).Name]++ })
		return starlark.None, nil
	})
	const rounds = 5000 // of 25 steps: 100 are four
	program := fmt.Sprintf("def a():\n    x = 1\n    y = 2\ndef b():\n    x = 1\ndef main():\n    for i in range(%d):\n        a()\n        b()\n        mark()\nmain()\n", rounds)
	before := thread.Steps
	if _, err := starlark.ExecFileOptions(dialect, thread, "p.star", program, starlark.StringDict{"mark": mark}); err != nil {
		t.Fatal(err)
	}
	attached.Detach()
	if steps := (thread.Steps - before) / rounds; 100%steps != 0 {
		t.Fatalf("the loop takes %d steps, of which the mean gap is no multiple", steps)
	}
	for _, method := range []string{"p.star:main", "p.star:a", "p.star:b"} {
		if sampled[method] == 0 {
			t.Errorf("no sample of %s: %v", method, sampled)
		}
	}
}

func TestNothingIsSampledWhileParked(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: -1})
	thread := new(starlark.Thread)
	attached := Attach(p, thread, Options{})
	defer attached.Detach()
	attached.Park()
	p.Mark(time.Second)
	attached.Unpark()
	execute(thread, "p.star", "x = 1", nil)
	if got := p.Stats().Counts[sampler.Samples]; got != 0 {
		t.Errorf("%d samples, want none", got)
	}
}

func TestSafepointAllocatesNothing(t *testing.T) {
	p := managed.New(managed.Options{Interval: -1})
	thread := new(starlark.Thread)
	var attached *Thread
	measure := starlark.NewBuiltin("measure", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		discard := func(*ccmap.Sample) {}
		allocations := testing.AllocsPerRun(100, func() {
			p.Mark(1)
			attached.stack.same = 1 // walk all but the outermost
			attached.step(thread)
			attached.next = thread.Steps
			p.Sink().Queue.Drain(discard)
		})
		if allocations != 0 {
			t.Errorf("%v allocations a sample, want none", allocations)
		}
		return starlark.None, nil
	})
	attached = Attach(p, thread, Options{Exact: true})
	defer attached.Detach()
	const program = "def f(x):\n    return sorted([1], key=lambda x: measure())\ndef g():\n    f(1)\ng()"
	if _, err := starlark.ExecFileOptions(dialect, thread, "p.star", program, starlark.StringDict{"measure": measure}); err != nil {
		t.Fatal(err)
	}
}

// guest is the suite's program.
const guest = `
def A():
    while True:
        op = next()
        if op == RETURN:
            return
        A() if op == CALL_A else B()

def B():
    while True:
        op = next()
        if op == RETURN:
            return
        A() if op == CALL_A else B()

A()
`

func TestConformance(t *testing.T) {
	p := managed.New(managed.Options{Interval: -1})
	vm := managedtest.VM{
		Names: p.Sink().Names, A: "guest.star:A", B: "guest.star:B",
		Run: func(next func(managed.Walker) managedtest.Op) error { return runGuest(p, Options{Exact: true}, next) },
	}
	t.Run("exact=true", func(t *testing.T) { managedtest.Run(t, vm) })
	vm.NoMarks = true
	vm.Run = func(next func(managed.Walker) managedtest.Op) error { return runGuest(p, Options{}, next) }
	t.Run("exact=false", func(t *testing.T) { managedtest.Run(t, vm) })
}

func runGuest(p *managed.Profiler, o Options, next func(managed.Walker) managedtest.Op) error {
	thread := new(starlark.Thread)
	attached := Attach(p, thread, o)
	defer attached.Detach()
	_, err := starlark.ExecFileOptions(dialect, thread, "guest.star", guest, starlark.StringDict{
		"RETURN": starlark.MakeInt(int(managedtest.Return)),
		"CALL_A": starlark.MakeInt(int(managedtest.CallA)),
		"next": starlark.NewBuiltin("next", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return starlark.MakeInt(int(next(&attached.stack))), nil
		}),
	})
	return err
}
