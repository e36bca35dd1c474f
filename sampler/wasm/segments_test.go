package wasm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// A host function that panics ends its call back. The host function below takes the
// error, and its caller goes on. Its stack is whole as before.
func TestPanicInCallBack(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	callback := func(ctx context.Context, guest api.Module, n int32) {
		if n == 1 {
			panic(broken)
		}
		if _, err := guest.ExportedFunction("reenter").Call(ctx, uint64(n)); err != nil && !errors.Is(err, broken) {
			panic(err)
		}
	}
	binary := guests.Small("callback")
	tr, plain := newTruth(t, binary, callback)
	p := newProfile(t, everySafePoint(97), compiling())
	provide(t, context.Background(), p.runtime, callback)
	guest := p.instantiate(p.compile(binary))
	for _, n := range []uint64{3, 1, 3} {
		want, wantErr := plain.ExportedFunction("run").Call(context.Background(), n)
		p.mark(guest)
		got, err := guest.ExportedFunction("run").Call(context.Background(), n)
		if diff := cmp.Diff(endOf(plain, want, wantErr), endOf(guest, got, err)); diff != "" {
			t.Errorf("run(%d) (-plain +sampled):\n%s", n, diff)
		}
		if errors.Is(err, broken) != errors.Is(wantErr, broken) {
			t.Errorf("run(%d): %v, want %v", n, err, wantErr)
		}
		checkHealed(t, guest)
	}
	p.checkAtMost(tr.all)
	got := p.contexts()
	for _, path := range []string{"/$4/leave/env.callback/$3/work", "/$4/leave/env.callback/$3/leave/env.callback/$3/work"} {
		if got[path] == 0 {
			t.Errorf("no activation of %s in %v", path, got)
		}
	}
}

// A call back without an announcement has its outer frames cut, visibly. From then on
// calls are announced again.
func TestUnannouncedCallBack(t *testing.T) {
	t.Parallel()
	back := false
	callback := func(ctx context.Context, guest api.Module, n int32) {
		if back {
			reenter(ctx, guest, 0)
		}
	}
	p := newProfile(t, everySafePoint(1), compiling())
	provide(t, context.Background(), p.runtime, callback)
	guest := p.instantiate(p.compile(guests.Small("callback")))
	run := func() paths {
		p.mark(guest)
		if _, err := guest.ExportedFunction("run").Call(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		return p.contexts()
	}
	for range 2 * firstBackOff {
		run()
	}
	if bits := guest.ExportedGlobal(rewrite.AnnounceGlobal).Get(); bits == 1<<64-1 {
		t.Error("an import that does not call back is still announced")
	}
	back = true
	const cut, whole = "/" + ccmap.TruncatedName + "/$3/work", "/$4/leave/env.callback/$3/work"
	if got := run(); got[cut] != 1 || got[whole] != 0 {
		t.Errorf("unannounced: %v", got)
	}
	if got := run(); got[cut] != 1 || got[whole] != 1 {
		t.Errorf("announced again: %v", got)
	}
}

// counting is a module that exports "callback", a loop with as many rounds as its
// argument says.
var counting = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	1, 5, 1, 0x60, 1, 0x7f, 0, // type: func(i32)
	3, 2, 1, 0,
	7, 12, 1, 8, 'c', 'a', 'l', 'l', 'b', 'a', 'c', 'k', 0, 0,
	10, 16, 1, 14, 0,
	0x03, 0x40, // loop
	0x20, 0, 0x41, 1, 0x6b, 0x22, 0, // n = n-1
	0x0d, 0, // br_if
	0x0b, 0x0b,
}

// If one module calls another directly, on the same stack, the callee's stack is cut at
// its entry: no frame is taken for another module's.
func TestModulesThatCallEachOther(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := newProfile(t, everySafePoint(1), compiling())
	inner, err := p.runtime.InstantiateModule(ctx, p.compile(counting), wazero.NewModuleConfig().WithName("env"))
	if err != nil {
		t.Fatal(err)
	}
	outer := p.instantiate(p.compile(guests.Small("callback")))
	p.profiler.modules[digestOf(counting)].newInstance(inner).thread.Unpark()
	p.profiler.modules[digestOf(guests.Small("callback"))].newInstance(outer)
	p.mark(outer)
	p.profiler.instances.get(inner).marked = false
	if _, err := outer.ExportedFunction("run").Call(ctx, 3); err != nil {
		t.Fatal(err)
	}
	want := paths{
		"/$4": 1, "/$4/leave": 1, "/$4/leave/env.callback": 1, "/$4/leave/work": 1,
		"/" + ccmap.TruncatedName: 0, "/" + ccmap.TruncatedName + "/$0": 1,
	}
	if diff := cmp.Diff(want, p.contexts()); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

// A trap in a module ends its entry, and the entry of the module that has called it.
func TestTrapInModuleThatAnotherCalls(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	trapping := append(slices.Clone(counting[:len(counting)-18]), 10, 5, 1, 3, 0, 0x00, 0x0b) // unreachable
	p := newProfile(t, everySafePoint(1), compiling())
	inner, err := p.runtime.InstantiateModule(ctx, p.compile(trapping), wazero.NewModuleConfig().WithName("env"))
	if err != nil {
		t.Fatal(err)
	}
	outer := p.instantiate(p.compile(guests.Small("callback")))
	for range 2 {
		if _, err := outer.ExportedFunction("run").Call(ctx, 3); err == nil || !strings.Contains(err.Error(), "unreachable") {
			t.Errorf("ended with %v", err)
		}
		for name, guest := range map[string]api.Module{"inner": inner, "outer": outer} {
			checkHealed(t, guest)
			if n := len(p.profiler.instances.get(guest).entries); n != 0 {
				t.Errorf("%s: %d entries left", name, n)
			}
		}
	}
}

// Many instances of one module run in parallel and are closed in use. Each keeps its own
// samples, and their threads end.
func TestManyInstances(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, calls = 8, 20, 20
	var called atomic.Int64
	binary := guests.Small("fib")
	tr, plain := newTruth(t, binary, reenter)
	if _, err := plain.ExportedFunction("fib").Call(context.Background(), 15); err != nil {
		t.Fatal(err)
	}
	p := newProfile(t, Options{Options: managed.Options{Interval: managed.MinInterval}}, compiling())
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan sampler.Ending)
	go func() {
		ending, _ := p.profiler.Run(ctx)
		over <- ending
	}()
	c := p.compile(binary)
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for i := 0; i < rounds || p.profiler.Stats().Counts[sampler.Samples] == 0; i++ {
				guest := p.instantiate(c)
				for range calls {
					if _, err := guest.ExportedFunction("fib").Call(ctx, 15); err != nil {
						t.Error(err)
					}
					called.Add(1)
				}
				guest.Close(ctx)
			}
		})
	}
	running.Wait()
	for deadline := time.Now().Add(20 * time.Second); p.profiler.Stats().Threads > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // the next mark finds the closed ones
	}
	stop()
	<-over
	for path := range tr.all {
		tr.all[path] *= called.Load()
	}
	p.checkAtMost(tr.all)
	if s := p.profiler.Stats(); s.Threads != 0 || s.Counts[sampler.Panicked] != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A runtime that interprets is refused, and the error says what to do.
func TestInterpreterIsRefused(t *testing.T) {
	t.Parallel()
	p := newProfile(t, Options{}, wazero.NewRuntimeConfigInterpreter())
	_, err := p.profiler.CompileModule(context.Background(), guests.Small("fib"))
	if !errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(err.Error(), "NewRuntimeConfigCompiler") {
		t.Errorf("%v", err)
	}
}

func TestMalformedModuleIsRefused(t *testing.T) {
	t.Parallel()
	p := newProfile(t, Options{}, compiling())
	if _, err := p.profiler.CompileModule(context.Background(), []byte("\x00asm\x01\x00\x00\x00\x01")); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

// A start function runs before the module has been instantiated.
func TestStartFunction(t *testing.T) {
	t.Parallel()
	p := newProfile(t, everySafePoint(1), compiling())
	guest := p.instantiate(p.compile(guests.Small("start")))
	got, err := guest.ExportedFunction("value").Call(context.Background())
	if err != nil || len(got) != 1 || got[0] != 5050 {
		t.Errorf("value %v, %v", got, err)
	}
	if p.profiler.instances.get(guest) == nil {
		t.Error("the instance is unknown after its start function")
	}
}

// An instance that is closed while it runs goes on as without the profiler, and none of
// its activations is counted twice.
func TestClosedInUse(t *testing.T) {
	t.Parallel()
	callback := func(ctx context.Context, guest api.Module, n int32) { guest.Close(ctx) }
	binary := guests.Small("callback")
	tr, plain := newTruth(t, binary, callback)
	p := newProfile(t, everySafePoint(7), compiling())
	provide(t, context.Background(), p.runtime, callback)
	guest := p.instantiate(p.compile(binary))
	want, wantErr := plain.ExportedFunction("run").Call(context.Background(), 1)
	p.mark(guest)
	got, err := guest.ExportedFunction("run").Call(context.Background(), 1)
	if diff := cmp.Diff(endOf(plain, want, wantErr), endOf(guest, got, err)); diff != "" {
		t.Errorf("(-plain +sampled):\n%s", diff)
	}
	p.profiler.Mark(1)
	if n := p.profiler.Stats().Threads; n != 0 {
		t.Errorf("%d threads after the instance was closed", n)
	}
	p.checkAtMost(tr.all)
}

// A guest with short calls without safe points is sampled where they end.
func TestShortCalls(t *testing.T) {
	t.Parallel()
	p := newProfile(t, Options{Options: managed.Options{Interval: managed.MinInterval}}, compiling())
	guest := p.instantiate(p.compile(guests.Small("multivalue")))
	stop := p.start()
	calls := int64(0)
	for ; p.profiler.Stats().Counts[sampler.Samples] == 0; calls++ {
		if _, err := guest.ExportedFunction("divmod").Call(context.Background(), 27, 4); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	got := p.contexts()
	if n := got["/divmod"]; n < 1 || n > calls || len(got) != 1 {
		t.Errorf("contexts %v of %d calls", got, calls)
	}
}

// overflows calls back until the stack overflows, which it hides from the guest, and then
// as the guest asks. It calls mark before any other code of the guest runs.
func overflows(mark func(api.Module)) hostFunction {
	return func(ctx context.Context, guest api.Module, n int32) {
		mark(guest)
		if _, err := guest.ExportedFunction("descend").Call(ctx); err == nil {
			panic("the stack does not overflow")
		}
		mark(guest)
		reenter(ctx, guest, n)
		mark(guest)
	}
}

// A host function hides that its call back has overflowed, and its caller goes on: no
// activation is counted again, and all stacks are whole.
func TestOverflowInCallBack(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	binary := guests.Small("survive")
	tr, plain := newTruth(t, binary, overflows(func(api.Module) {}))
	if _, err := plain.ExportedFunction("run").Call(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	p := newProfile(t, Options{Options: managed.Options{Interval: -1}}, compiling())
	provide(t, context.Background(), p.runtime, overflows(func(api.Module) { p.profiler.Mark(1000) }))
	guest := p.instantiate(p.compile(binary))
	p.mark(guest)
	if _, err := guest.ExportedFunction("run").Call(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	checkHealed(t, guest)
	p.checkAtMost(tr.all)
	const outer, inner = "/run/leave/env.callback", "/leave/env.callback/reenter"
	want := paths{
		"/run":                      1,
		"/run/leave":                2,
		outer:                       2,
		outer + "/descend":          2,
		outer + "/reenter":          2,
		outer + "/reenter" + inner:  2,
		"/run/env.callback/reenter": 1,
	}
	p.checkAtLeast(want)
	for path, n := range p.contexts() {
		if strings.HasPrefix(path, "/"+ccmap.TruncatedName) {
			t.Errorf("%d activations of %s", n, path)
		}
	}
}
