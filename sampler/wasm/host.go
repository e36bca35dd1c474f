package wasm

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// prepare instantiates the functions that rewritten modules import, once. Their listeners
// do the work, because wazero shows them the stack.
func (p *Profiler) prepare(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		return nil
	}
	if err := p.checkEngine(ctx); err != nil {
		return err
	}
	p.multiValue, p.tailCalls = p.compiles(ctx, multiValueProbe), p.compiles(ctx, tailCallProbe)
	listeners := listenerFactory{
		rewrite.SampleFunction: sampleListener{profiler: p},
		rewrite.CallFunction:   callListener{profiler: p},
	}
	host, err := p.engine.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(p.sampled), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}, nil).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32, api.ValueTypeI32}, nil).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(p.counted), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}, nil).Export(rewrite.PointFunction).
		Instantiate(experimental.WithFunctionListenerFactory(ctx, listeners))
	if err != nil {
		return fmt.Errorf("instantiate module %q (a runtime can have only one): %w", rewrite.HostModule, err)
	}
	p.host = host
	if p.options.CollectAtSamples {
		collecting.join(p)
	}
	return nil
}

// sampled is the host function sample. Its listener runs first.
func (p *Profiler) sampled(ctx context.Context, guest api.Module, _ []uint64) {
	p.exitIfAsked(ctx, guest)
}

// listenerFactory gives the functions of a host module their listeners, by name.
type listenerFactory map[string]experimental.FunctionListener

func (f listenerFactory) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	for _, name := range def.ExportNames() {
		if l := f[name]; l != nil {
			return l
		}
	}
	return nil
}

// beforeOnly is for listeners that act before the call alone.
type beforeOnly struct{}

func (beforeOnly) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}
func (beforeOnly) Abort(context.Context, api.Module, api.FunctionDefinition, error)    {}

// sampleListener sees a guest at a safe point.
type sampleListener struct {
	beforeOnly
	profiler *Profiler
}

func (l sampleListener) Before(_ context.Context, guest api.Module, _ api.FunctionDefinition, params []uint64, stack experimental.StackIterator) {
	if x := l.profiler.exact; x != nil {
		x.sample(guest, uint32(params[0]), stack)
	} else if in := l.profiler.instanceOf(guest, stack); in != nil {
		in.safepoint(uint32(params[0]), int(params[1]&rewrite.AllNumbers), stack)
	}
}

// callListener sees a guest at an indirect call, before the guest makes it.
type callListener struct {
	beforeOnly
	profiler *Profiler
}

func (l callListener) Before(_ context.Context, guest api.Module, _ api.FunctionDefinition, params []uint64, stack experimental.StackIterator) {
	if in := l.profiler.instanceOf(guest, stack); in != nil {
		in.called(uint32(params[0]), uint32(params[1]), int(params[2]&rewrite.AllNumbers), stack)
	}
}

// probe is a module with a function that does nothing, exported as "f".
var probe = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	1, 4, 1, 0x60, 0, 0, // type: func()
	3, 2, 1, 0, // a function of that type
	7, 5, 1, 1, 'f', 0, 0, // exported
	10, 4, 1, 2, 0, 0x0b, // with an empty body
}

// multiValueProbe is a module with a type of two results.
var multiValueProbe = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	1, 6, 1, 0x60, 0, 2, 0x7f, 0x7f,
}

// tailCallProbe is a module with a function that makes a tail call.
var tailCallProbe = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	1, 4, 1, 0x60, 0, 0, // type: func()
	3, 2, 1, 0, // a function of that type
	10, 6, 1, 4, 0, 0x12, 0, 0x0b, // that calls itself
}

// compiles reports whether the runtime has the features that a module needs.
func (p *Profiler) compiles(ctx context.Context, binary []byte) bool {
	compiled, err := p.engine.CompileModule(ctx, binary)
	if err != nil {
		return false
	}
	compiled.Close(ctx)
	return true
}

// checkEngine refuses a runtime that interprets: it reads globals in Go, so marks from
// another goroutine would be a data race, and a safe point would cost a hundred times as
// much. Only the stack that a listener gets tells the engines apart.
func (p *Profiler) checkEngine(ctx context.Context) error {
	var engine engineListener
	ctx = experimental.WithFunctionListenerFactory(ctx, experimental.FunctionListenerFactoryFunc(
		func(api.FunctionDefinition) experimental.FunctionListener { return &engine }))
	compiled, err := p.engine.CompileModule(ctx, probe)
	if err != nil {
		return fmt.Errorf("probe the runtime: %w", err)
	}
	defer compiled.Close(ctx)
	guest, err := p.engine.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return fmt.Errorf("probe the runtime: %w", err)
	}
	defer guest.Close(ctx)
	if _, err := guest.ExportedFunction("f").Call(ctx); err != nil {
		return fmt.Errorf("probe the runtime: %w", err)
	}
	if !engine.compiles {
		return fmt.Errorf("the runtime interprets WebAssembly, use wazero.NewRuntimeConfigCompiler, on amd64 or arm64: %w", sampler.ErrUnsupported)
	}
	return nil
}

// engineListener finds out which of wazero's engines calls it: internal/engine/wazevo
// compiles, internal/engine/interpreter interprets (wazero v1.12.0).
type engineListener struct {
	beforeOnly
	compiles bool
}

func (l *engineListener) Before(_ context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, stack experimental.StackIterator) {
	l.compiles = strings.HasSuffix(reflect.Indirect(reflect.ValueOf(stack)).Type().PkgPath(), "/wazevo")
}
