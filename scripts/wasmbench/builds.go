package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// build is a program compiled in one way, on a runtime of its own.
type build struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	took     time.Duration // to compile, of the thread's processor time

	profiler *wasm.Profiler   // of the sampled builds alone
	session  *manager.Session // likewise
}

// builder compiles a module in one way. Whatever comes of it, the build is to be
// closed.
type builder func(ctx context.Context, binary []byte) (build, error)

// close ends what the build has begun, if anything.
func (b build) close(ctx context.Context) error {
	if b.runtime == nil {
		return nil
	}
	defer b.runtime.Close(ctx)
	if b.session == nil {
		return nil
	}
	_, err := b.session.Stop()
	return errors.Join(err, b.profiler.Close(ctx))
}

// compile compiles a module and gives the runtime what it imports.
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

// newRuntime returns a runtime like that of ccmapd run.
func newRuntime(ctx context.Context) wazero.Runtime {
	features := api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))
}

// buildPlain compiles the module as it is.
func buildPlain(ctx context.Context, binary []byte) (build, error) {
	r := newRuntime(ctx)
	return compile(ctx, r, binary, r.CompileModule)
}

// buildListener compiles it with a listener on every function that does nothing.
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
	session, err := manager.Start(ctx, manager.Config{Source: profiler, FixedInterval: true})
	if err != nil {
		return build{runtime: r}, fmt.Errorf("start session: %w", err)
	}
	b, err := compile(ctx, r, binary, profiler.CompileModule)
	b.profiler, b.session = profiler, session
	return b, err
}

func clearMark(_ context.Context, guest api.Module, _, _ uint32) {
	guest.ExportedGlobal(rewrite.MarkGlobal).(api.MutableGlobal).Set(0)
}

// listener is on every function of a module and does nothing: the least that any
// profiler costs that is told of every call.
type listener struct{}

func (l listener) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener { return l }

func (listener) Before(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
}
func (listener) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}
func (listener) Abort(context.Context, api.Module, api.FunctionDefinition, error)    {}
