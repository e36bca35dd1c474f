package wasm

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"go.uber.org/goleak"
)

// paths counts by context: the names of the methods, outermost first.
type paths map[string]int64

// profile is a runtime whose guests are sampled, in the test's own time.
type profile struct {
	testing.TB
	profiler *Profiler
	runtime  wazero.Runtime
	folded   *ccmap.Map
}

func compiling() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall)
}

// everySafePoint is a burst without end: after one mark, every stride-th safe point takes
// a sample.
func everySafePoint(stride int) Options {
	return Options{Options: managed.Options{
		Sink:     sampler.Sink{Queue: queue.New(queue.Options{RingWords: 1 << 20})},
		Interval: -1,
		Burst:    managed.Burst{Samples: 1 << 30, Stride: stride},
	}}
}

// newProfile returns a runtime with WASI.
func newProfile(t testing.TB, o Options, config wazero.RuntimeConfig) *profile {
	t.Helper()
	ctx := context.Background()
	p := &profile{TB: t, runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	t.Cleanup(func() { p.runtime.Close(ctx) })
	p.profiler = New(p.runtime, o)
	t.Cleanup(func() { p.profiler.Close(ctx) })
	p.folded = ccmap.New(ccmap.Options{Names: p.profiler.Sink().Names})
	wasi_snapshot_preview1.MustInstantiate(ctx, p.runtime)
	return p
}

// hostFunction is one that the guest callback imports.
type hostFunction func(ctx context.Context, guest api.Module, n int32)

// reenter calls back, as the guest asks.
func reenter(ctx context.Context, guest api.Module, n int32) {
	if _, err := guest.ExportedFunction("reenter").Call(ctx, uint64(n)); err != nil {
		panic(err)
	}
}

// provide instantiates the imports of the guest callback.
func provide(t testing.TB, ctx context.Context, r wazero.Runtime, callback hostFunction) {
	t.Helper()
	_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().
		WithFunc(callback).Export("callback").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
}

// compile compiles a guest with safe points.
func (p *profile) compile(binary []byte) wazero.CompiledModule {
	p.Helper()
	c, err := p.profiler.CompileModule(context.Background(), binary)
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// instantiate returns an instance that is sampled from now on: its thread is attached
// at its first entry, and marked from there.
func (p *profile) instantiate(c wazero.CompiledModule) api.Module {
	p.Helper()
	guest, err := p.runtime.InstantiateModule(context.Background(), c, anonymous())
	if err != nil {
		p.Fatal(err)
	}
	return guest
}

func anonymous() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions().WithStdout(new(bytes.Buffer))
}

// mark makes a guest's next call be sampled. A mark before the call would be forgotten,
// so the mark follows a pretended entry.
func (p *profile) mark(guest api.Module) {
	in := p.profiler.instances.get(guest)
	if in == nil {
		for _, m := range p.profiler.modules {
			if len(m.rewritten.Functions) > 0 {
				in = m.newInstance(guest)
			}
		}
	}
	in.thread.Unpark()
	p.profiler.Mark(1000)
	in.marked = false
}

// contexts folds the pushed samples, and returns the activations by context.
func (p *profile) contexts() paths {
	p.Helper()
	p.profiler.instances.each(func(in *instance) { in.thread.Park() })
	p.profiler.Sink().Queue.Drain(p.fold)
	s := p.folded.Snapshot()
	if err := s.CheckValid(); err != nil {
		p.Fatal(err)
	}
	return activations(s)
}

// checkAtMost compares with the true activations, of every whole context, and of every
// method, because some contexts are cut.
func (p *profile) checkAtMost(most paths) {
	p.Helper()
	methods, mostOf := paths{}, paths{}
	for path, n := range most {
		mostOf[last(path)] += n
	}
	for path, n := range p.contexts() {
		methods[last(path)] += n
		if n > most[path] && !strings.HasPrefix(path, "/"+ccmap.TruncatedName) {
			p.Errorf("%s: %d activations, in truth %d", path, n, most[path])
		}
	}
	for method, n := range methods {
		if n > mostOf[method] && method != ccmap.TruncatedName {
			p.Errorf("%s: %d activations, in truth %d", method, n, mostOf[method])
		}
	}
}

// checkAtLeast checks that all activations in least were found.
func (p *profile) checkAtLeast(least paths) {
	p.Helper()
	got := p.contexts()
	for path, n := range least {
		if got[path] < n {
			p.Errorf("%s: %d activations, want %d at least", path, got[path], n)
		}
	}
}

// bare returns the functions without safe points.
func (p *profile) bare() map[string]bool {
	names := map[string]bool{}
	for _, m := range p.profiler.modules {
		for i, kind := range m.rewritten.Functions {
			if kind == rewrite.Bare {
				names[m.symbols.Function(m.rewritten.Imported+i).Name] = true
			}
		}
	}
	return names
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// activations returns the activations of all contexts that are not too deep.
func activations(s *ccmap.Snapshot) paths {
	return countPaths(s, func(n ccmap.Node) int64 { return n.Self.Activations })
}

// countPaths adds up a count of the nodes of each path.
func countPaths(s *ccmap.Snapshot, of func(ccmap.Node) int64) paths {
	names, depths := make([]string, s.Len()), make([]int, s.Len())
	all := paths{}
	for n := range s.Nodes() {
		if n.ID == 0 || n.Method == ccmap.NoMethod || depths[n.Parent] == deepest {
			depths[n.ID] = depths[n.Parent]
			continue
		}
		depths[n.ID] = depths[n.Parent] + 1
		names[n.ID] = names[n.Parent] + "/" + s.Names().At(n.Method).Name
		all[names[n.ID]] += of(n)
	}
	return all
}

// fold folds a sample, as the manager does. A caught call is not folded.
func (p *profile) fold(s *ccmap.Sample) {
	if !s.Hit {
		p.folded.Fold(s)
	}
}

func TestMain(m *testing.M) {
	// wazero keeps its version in a variable without a lock. The first runtime sets it.
	ctx := context.Background()
	if err := wazero.NewRuntime(ctx).Close(ctx); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testrun.Guard(m))
}

// ofOneGoroutine skips a test that runs a guest and looks at its samples on one goroutine: the race
// detector, under which tests are short, has nothing to find.
func ofOneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine runs the guest")
	}
}

// Indirect calls are caught with their targets, in order.
func TestIndirectCallsAreCaught(t *testing.T) {
	t.Parallel()
	p := newProfile(t, everySafePoint(1<<20), compiling())
	guest := p.instantiate(p.compile(guests.Small("indirect")))
	p.mark(guest)
	p.profiler.Mark(24 * time.Hour) // a burst of calls is overdue
	if _, err := guest.ExportedFunction("run").Call(context.Background(), 14); err != nil {
		t.Fatal(err)
	}
	p.profiler.instances.get(guest).thread.Park()
	names := p.profiler.Sink().Names
	var got []string
	p.profiler.Sink().Queue.Drain(func(s *ccmap.Sample) {
		if !s.Hit {
			return
		}
		got = append(got, names.At(s.Frames[0].Method).Name)
		if site := s.Frames[1]; names.At(site.Method).Name != "$5" || site.Offset == ccmap.NoOffset || len(s.Frames) != 2 {
			t.Errorf("called from %v", s.Frames[1:])
		}
	})
	counts := map[string]int{}
	for _, name := range got {
		counts[name]++
	}
	if diff := cmp.Diff(map[string]int{"square": 8, "circle": 4, "triangle": 2}, counts); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
