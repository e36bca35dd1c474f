package wasmbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// build is a program compiled in one way, on a runtime of its own.
type build struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	took     time.Duration // CPU time of the thread for compiling

	profiler *wasm.Profiler // of sampled builds only
}

// builder compiles a module in one way.
type builder func(ctx context.Context, binary []byte) (build, error)

// compile compiles a module and gives the runtime its imports.
func compile(ctx context.Context, r wazero.Runtime, binary []byte,
	with func(context.Context, []byte) (wazero.CompiledModule, error)) (b build, err error) {
	b.runtime = r
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	if b.compiled, err = with(ctx, binary); err != nil {
		return b, fmt.Errorf("compile: %w", err)
	}
	b.took = threadTime() - start
	return b, guests.Host(ctx, r, b.compiled)
}

// newRuntime returns a runtime like ccmapd run's.
func newRuntime(ctx context.Context) wazero.Runtime {
	features := api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))
}

// buildPlain compiles the original module.
func buildPlain(ctx context.Context, binary []byte) (build, error) {
	r := newRuntime(ctx)
	return compile(ctx, r, binary, r.CompileModule)
}

// buildListener compiles it with a listener on every function. The listener does nothing.
func buildListener(ctx context.Context, binary []byte) (build, error) {
	return buildPlain(experimental.WithFunctionListenerFactory(ctx, listener{}), binary)
}

// buildPolls compiles it rewritten, with nothing but polls. Its first safe point clears
// the mark, which is never set again.
func buildPolls(ctx context.Context, binary []byte) (build, error) {
	rewritten, err := rewrite.Rewrite(binary, rewrite.Options{MultiValue: true})
	if err != nil {
		return build{}, fmt.Errorf("rewrite: %w", err)
	}
	r := newRuntime(ctx)
	_, err = r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(clearMark).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err != nil {
		return build{runtime: r}, fmt.Errorf("instantiate the host's side: %w", err)
	}
	return compile(ctx, r, rewritten.Binary, r.CompileModule)
}

// buildSampled compiles it for the sampler and begins a session that folds the
// samples, as an embedder does.
func buildSampled(ctx context.Context, binary []byte) (build, error) {
	r := newRuntime(ctx)
	profiler := wasm.New(r, wasm.Options{})
	if _, err := manager.Start(ctx, manager.Config{Source: profiler, FixedInterval: true}); err != nil {
		return build{runtime: r}, fmt.Errorf("start session: %w", err)
	}
	b, err := compile(ctx, r, binary, profiler.CompileModule)
	b.profiler = profiler
	return b, err
}

func clearMark(_ context.Context, guest api.Module, _, _ uint32) {
	guest.ExportedGlobal(rewrite.MarkGlobal).(api.MutableGlobal).Set(0)
}

// listener is on every function of a module and does nothing. That is the least cost of
// any profiler that is told of every call.
type listener struct{}

func (l listener) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener { return l }

func (listener) Before(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
}
func (listener) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}
func (listener) Abort(context.Context, api.Module, api.FunctionDefinition, error)    {}

// Ways that are compared with each other.
const (
	way10       = "10ms"
	wayListener = "listener"
)

// way is a way to run a guest beside the plain run.
type way struct {
	name     string // part of a benchmark's name
	build    build
	shorter  int           // divides the length of runs
	interval time.Duration // of the sampled build
}

// buildSet is a program in all ways.
type buildSet struct {
	plain, polls, sampled, listener build
}

// buildAll compiles a module in all ways. The builds live as long as the process.
func buildAll(ctx context.Context, binary []byte) (s buildSet, err error) {
	for _, one := range []struct {
		to   *build
		with builder
	}{
		{&s.plain, buildPlain}, {&s.polls, buildPolls}, {&s.sampled, buildSampled}, {&s.listener, buildListener},
	} {
		if *one.to, err = one.with(ctx, binary); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s buildSet) ways() []way {
	return []way{
		{name: "plain", build: s.plain, shorter: 1},
		{name: "polls", build: s.polls, shorter: 1},
		{name: "50ms", build: s.sampled, shorter: 1, interval: 50 * time.Millisecond},
		{name: way10, build: s.sampled, shorter: 1, interval: 10 * time.Millisecond},
		{name: "1ms", build: s.sampled, shorter: 1, interval: time.Millisecond},
		{name: wayListener, build: s.listener, shorter: 4},
	}
}

// compileCost is the cost of a module before it runs.
type compileCost struct {
	speed  float64 // of rewriting, in MB/s of the original
	growth float64 // of the module's bytes, as rewritten/plain
	time   float64 // of wazero's compilation, as rewritten/plain
}

// compileCost measures the module. If compiling takes long, the builds have shown it.
func (s buildSet) compileCost(ctx context.Context, binary []byte) (compileCost, error) {
	c, err := rewriteCost(binary)
	if c.time = ratio(s.polls.took, s.plain.took); err == nil && s.plain.took < 200*time.Millisecond {
		c.time, err = compareCompilation(ctx, binary)
	}
	return c, err
}

// rewriteCost rewrites a module as often as fits into a fifth of a second, and keeps the
// best: small modules take microseconds.
func rewriteCost(binary []byte) (c compileCost, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Duration(1<<63 - 1)
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		start := threadTime()
		m, err := rewrite.Rewrite(binary, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true, Calls: true})
		if err != nil {
			return compileCost{}, fmt.Errorf("rewrite: %w", err)
		}
		best = min(best, threadTime()-start)
		c.growth = float64(len(m.Binary)) / float64(len(binary))
	}
	c.speed = float64(len(binary)) / 1e6 / best.Seconds()
	return c, nil
}

// compareCompilation compiles the module as it is and rewritten, in turn for half a
// second, and compares the best: small modules take microseconds.
func compareCompilation(ctx context.Context, binary []byte) (float64, error) {
	plain, polls := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if err := errors.Join(compileAgain(ctx, binary, buildPlain, &plain), compileAgain(ctx, binary, buildPolls, &polls)); err != nil {
			return 0, err
		}
	}
	return ratio(polls, plain), nil
}

// compileAgain lowers best to the time of another compilation.
func compileAgain(ctx context.Context, binary []byte, with builder, best *time.Duration) error {
	b, err := with(ctx, binary)
	*best = min(*best, b.took)
	return errors.Join(err, b.runtime.Close(ctx))
}
