package rewrite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// A world is a runtime that runs a script, with original or rewritten modules.
type world struct {
	tb      testing.TB
	ctx     context.Context
	runtime wazero.Runtime
	options *rewrite.Options // nil: original modules
	random  *rand.Rand       // with options.Marks: decides when marks are set
	model   *model           // nil: marks are not checked

	named     map[string]api.Module
	last      api.Module
	instances []api.Module
}

// outcome is the result of a command.
type outcome struct {
	results []uint64
	err     error
}

func newWorld(tb testing.TB, config wazero.RuntimeConfig, o *rewrite.Options, random *rand.Rand) *world {
	tb.Helper()
	ctx := context.Background()
	w := &world{tb: tb, ctx: ctx, runtime: wazero.NewRuntimeWithConfig(ctx, config), options: o, random: random, named: map[string]api.Module{}}
	tb.Cleanup(func() { w.runtime.Close(ctx) })
	_, err := w.runtime.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(w.sample).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(site, element, number uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(site, value uint32) {}).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// sample is the host function. It checks the invariants, and sets the globals as a host
// may.
func (w *world) sample(_ context.Context, m api.Module, reason, number uint32) {
	number &= rewrite.AllNumbers
	if !w.options.Marks {
		global(m, rewrite.MarkGlobal).Set(0)
		return
	}
	if w.model != nil {
		w.model.sample(m, reason, uint64(number))
	}
	global(m, rewrite.VisitedGlobal).Set(uint64(number))
	w.mark(m)
	if w.options.Calls {
		global(m, rewrite.CallsGlobal).Set(w.random.Uint64() & 1)
	}
	if w.options.Points {
		global(m, rewrite.PointsGlobal).Set(w.random.Uint64() & 1)
	}
	global(m, rewrite.AnnounceGlobal).Set(w.random.Uint64())
}

// mark sets the mark, or clears it.
func (w *world) mark(m api.Module) {
	set := w.random.Uint64() & 1
	global(m, rewrite.MarkGlobal).Set(set)
	limit := global(m, rewrite.VisitedGlobal).Get()
	if set != 0 {
		limit = rewrite.AllNumbers
	}
	global(m, rewrite.LimitGlobal).Set(limit)
}

func global(m api.Module, name string) api.MutableGlobal {
	return m.ExportedGlobal(name).(api.MutableGlobal)
}

// instantiate gives the world another instance. A refusal of the rewriter is the error,
// if wazero would have accepted the module.
func (w *world) instantiate(binary []byte, name string) outcome {
	if w.options != nil {
		m, err := rewrite.Rewrite(binary, *w.options)
		if err != nil {
			return outcome{err: err}
		}
		binary = m.Binary
		if w.model != nil {
			w.model.next = m
		}
	}
	m, err := w.runtime.InstantiateWithConfig(w.ctx, binary, wazero.NewModuleConfig().WithName(name))
	if err == nil {
		w.last = m
		w.instances = append(w.instances, m)
		if w.model != nil {
			w.model.modules[m] = w.model.next
		}
	}
	w.settle(err != nil)
	return outcome{err: err}
}

// invoke calls a function, or reads a global, as an action says.
func (w *world) invoke(a action) outcome {
	m := w.last
	if a.Module != "" {
		m = w.named[a.Module]
	}
	if a.Type == "get" {
		return outcome{results: []uint64{m.ExportedGlobal(a.Field).Get()}}
	}
	f := m.ExportedFunction(a.Field)
	results, err := f.Call(w.ctx, a.arguments(w.tb)...)
	for i, t := range f.Definition().ResultTypes() {
		if t == 0x70 && results != nil && len(results) == len(f.Definition().ResultTypes()) && results[i] != 0 {
			results[i] = 1 // a function: an address
		}
	}
	w.settle(err != nil)
	return outcome{results, err}
}

// settle does a host's work after a guest's return.
func (w *world) settle(trapped bool) {
	if w.options == nil || !w.options.Marks {
		return
	}
	if trapped && w.model != nil {
		w.model.stack = nil // wazero did not abort these
	}
	for _, m := range w.instances {
		global(m, rewrite.DepthGlobal).Set(0)
		global(m, rewrite.VisitedGlobal).Set(0)
		w.mark(m)
	}
}

// memory is an instance's memory, or nil.
func memory(m api.Module) []byte {
	mem := m.Memory()
	if mem == nil || reflect.ValueOf(mem).IsNil() { // wazero gives a nil pointer
		return nil
	}
	b, _ := mem.Read(0, mem.Size())
	return b
}

// globals are the values of an instance's first n globals, numbers only.
func globals(m api.Module, n int) (values []uint64) {
	internal := m.(experimental.InternalModule)
	for i := range n {
		if g := internal.Global(i); g.Type() != 0x70 {
			values = append(values, g.Get())
		}
	}
	return values
}

// describe is a call's outcome in words, without the functions' addresses, which differ
// from run to run.
func describe(types []api.ValueType, results []uint64, err error) string {
	if err != nil {
		return trace(err)[0]
	}
	text := ""
	for i, t := range types {
		if t == api.ValueTypeI32 || t == api.ValueTypeI64 || t == api.ValueTypeF32 || t == api.ValueTypeF64 {
			text += fmt.Sprintf(" %#x", results[i])
		}
		if t == 0x7b { // v128 takes two
			return text
		}
	}
	return text
}
