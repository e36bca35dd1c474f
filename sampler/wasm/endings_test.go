package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// ending is the end of a guest's call, without the details that may depend on the
// profiler.
type ending struct {
	Results []uint64
	Err     string // without the stack trace
	Exit    int64  // code, or -1
	Memory  uint32 // its size in bytes
	Closed  bool
}

func endOf(guest api.Module, results []uint64, err error) ending {
	e := ending{Results: results, Exit: -1, Closed: guest.IsClosed()}
	if err != nil {
		e.Err, _, _ = strings.Cut(err.Error(), "\nwasm stack trace:")
	}
	if exit := (*sys.ExitError)(nil); errors.As(err, &exit) {
		e.Exit = int64(exit.ExitCode())
	}
	if m := guest.ExportedMemory("memory"); m != nil {
		e.Memory = m.Size()
	}
	return e
}

// endingCalls do not return.
var endingCalls = []exportCall{
	{"traps", "unreachable", nil, 1},
	{"traps", "divide_by_zero", nil, 1},
	{"traps", "overflow", nil, 1},
	{"traps", "conversion", nil, 1},
	{"traps", "memory_load", nil, 1},
	{"traps", "memory_fill", nil, 1},
	{"traps", "table_bounds", nil, 1},
	{"traps", "type_mismatch", nil, 1},
	{"traps", "null_entry", nil, 1},
	{"hoard", "hoard", nil, 1},
	{"exit", "exit", []uint64{20, 3}, 1},
	{"exit", "_start", nil, 1},
}

// A guest that does not return ends as without the profiler. All its activations until
// then are in the profile, and its instance can be used as before.
func TestGuestEndsAsWithoutProfiler(t *testing.T) {
	ofOneGoroutine(t)
	t.Parallel()
	for _, c := range endingCalls {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			binary := guests.Small(c.guest)
			tr, plain := newTruth(t, binary, reenter)
			p := newProfile(t, everySafePoint(c.stride), compiling())
			guest := p.instantiate(p.compile(binary))
			tr.bare = p.bare()
			tr.bare["wasi_snapshot_preview1.proc_exit"] = true // no safe point follows
			for i := 0; i < 3 && !guest.IsClosed(); i++ {
				want, err := plain.ExportedFunction(c.function).Call(context.Background(), c.params...)
				wantEnd := endOf(plain, want, err)
				p.mark(guest)
				got, err := guest.ExportedFunction(c.function).Call(context.Background(), c.params...)
				if diff := cmp.Diff(wantEnd, endOf(guest, got, err)); diff != "" {
					t.Fatalf("ending (-plain +sampled):\n%s", diff)
				}
				checkHealed(t, guest)
			}
			p.checkAtMost(tr.all)
			p.checkAtLeast(tr.found)
		})
	}
}

// checkHealed checks that no activations are on the instance's stack.
func checkHealed(t *testing.T, guest api.Module) {
	t.Helper()
	for _, name := range []string{rewrite.DepthGlobal, rewrite.VisitedGlobal} {
		if got := guest.ExportedGlobal(name).Get(); got != 0 {
			t.Errorf("%s is %d after the call", name, got)
		}
	}
}

// A recursion to the stack's limit ends as without the profiler, and the next call heals
// the instance.
func TestStackOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine fills its stack, which takes gigabytes under the race detector")
	}
	t.Parallel()
	p := newProfile(t, Options{Options: managed.Options{Interval: time.Millisecond}}, compiling())
	guest := p.instantiate(p.compile(guests.Small("descent")))
	_, plain := newPlain(t, guests.Small("descent"))
	_, want := plain.ExportedFunction("descend").Call(context.Background())
	stop := p.start()
	for calls := 0; calls < 2 || p.profiler.Stats().Counts[sampler.Samples] == 0; calls++ {
		_, err := guest.ExportedFunction("descend").Call(context.Background())
		if err == nil || want == nil || err.Error() != want.Error() {
			t.Fatalf("%v, want %v", err, want)
		}
		if n := len(p.profiler.instances.get(guest).entries); n != 1 {
			t.Errorf("%d segments after an overflow, want 1", n)
		}
	}
	stop()
	for path := range p.contexts() {
		if root, _, _ := strings.Cut(path[1:], "/"); root != "$1" && root != ccmap.TruncatedName {
			t.Errorf("a context begins with %s", root)
		}
	}
}

// newPlain returns a guest as it is.
func newPlain(t testing.TB, binary []byte) (wazero.Runtime, api.Module) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, compiling())
	t.Cleanup(func() { r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	guest, err := r.InstantiateWithConfig(ctx, binary, anonymous())
	if err != nil {
		t.Fatal(err)
	}
	return r, guest
}

// deadline is a context whose deadline passes when a channel is closed.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// An infinite loop ends with its context, and is sampled until then.
func TestDeadline(t *testing.T) {
	t.Parallel()
	p := newProfile(t, everySafePoint(1000), compiling().WithCloseOnContextDone(true))
	guest := p.instantiate(p.compile(guests.Small("spin")))
	p.mark(guest)
	ctx := deadline{context.Background(), make(chan struct{})}
	go func() { // the loop is found at its second safe point, if not at its first
		defer close(ctx.passed)
		for p.profiler.Stats().Counts[sampler.Samples] < 3 {
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := guest.ExportedFunction("spin").Call(ctx)
	if end := endOf(guest, nil, err); end.Exit != int64(sys.ExitCodeDeadlineExceeded) || !end.Closed {
		t.Errorf("ended with %v, %+v", err, end)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not the deadline", err)
	}
	checkHealed(t, guest)
	want := paths{"/$1": 1, "/$1/forever": 1}
	if diff := cmp.Diff(want, p.contexts()); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

// The world can be stopped while a guest loops for ever in native code, which Go cannot
// preempt. Exit ends that guest, and a guest that is instantiated later. The test runs
// alone, without a collector that stops the world at any time.
func TestExit(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // ends one under way
	p := newProfile(t, Options{}, compiling())
	c := p.compile(guests.Small("spin"))
	ends := make(chan ending)
	run := func(guest api.Module) {
		_, err := guest.ExportedFunction("spin").Call(context.Background())
		ends <- endOf(guest, nil, err)
	}
	running, later := p.instantiate(c), p.instantiate(c)
	go run(running)
	for p.profiler.instances.get(running) == nil {
		runtime.Gosched()
	}
	for range 10 {
		p.profiler.Stopping(runtime.GC)
	}
	p.profiler.Exit(130)
	want := ending{Exit: 130, Closed: true, Err: "module closed with exit_code(130)"}
	if diff := cmp.Diff(want, <-ends); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	go run(later)
	if diff := cmp.Diff(want, <-ends); diff != "" {
		t.Errorf("later (-want +got):\n%s", diff)
	}
}

// Any guest reaches a safe point where the world can be stopped and Exit ends it: one
// that loops, one that only calls, and one that makes tail calls. The test runs alone, as
// TestExit does.
func TestExitFromAnyCode(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // ends one under way
	for name, features := range runtimes {
		for _, exact := range []bool{false, true} {
			for _, c := range []exportCall{
				{guest: "spin", function: "spin"},
				{guest: "fib", function: "fib", params: []uint64{80}},
				{guest: "tailcalls", function: "sum", params: []uint64{1 << 62}},
			} {
				if c.guest == "tailcalls" && !features.IsEnabled(experimental.CoreFeaturesTailCall) {
					continue
				}
				t.Run(fmt.Sprintf("%v/%s/exact=%v", c, name, exact), func(t *testing.T) {
					config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features)
					p := newProfile(t, Options{Exact: exact}, config)
					if exact {
						defer p.start()() // or the guest waits until its calls are taken
					}
					end := p.compute(c)
					for range 10 {
						p.profiler.Stopping(runtime.GC)
						p.awaitUnasked()
					}
					end()
				})
			}
		}
	}
}

// A guest prints the same with and without the profiler.
func TestOutput(t *testing.T) {
	t.Parallel()
	run := func(r wazero.Runtime, c wazero.CompiledModule) string {
		var out bytes.Buffer
		_, err := r.InstantiateModule(context.Background(), c, wazero.NewModuleConfig().WithName("").
			WithArgs("hello", "you").WithEnv("WHO", "me").WithStdin(strings.NewReader("line\n")).WithStdout(&out))
		if exit := (*sys.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return out.String()
	}
	p := newProfile(t, everySafePoint(1), compiling())
	r, _ := newPlain(t, guests.Small("fib"))
	plain, err := r.CompileModule(context.Background(), guests.Small("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run(r, plain), run(p.runtime, p.compile(guests.Small("hello")))); diff != "" {
		t.Errorf("output (-plain +sampled):\n%s", diff)
	}
}
