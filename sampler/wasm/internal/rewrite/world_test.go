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
	controls  map[api.Module]*controls
}

// controls are the globals of an instance that a host reads and sets, nil: the module has none. A script has hundreds of
// instances, and sets them millions of times.
type controls struct{ mark, announce, calls, points, depth, visited, limit api.MutableGlobal }

// controlsOf finds the globals of an instance once. Its start function runs before the instance is known.
func (w *world) controlsOf(m api.Module) *controls {
	c := w.controls[m]
	if c == nil {
		find := func(name string) api.MutableGlobal {
			g, _ := m.ExportedGlobal(name).(api.MutableGlobal)
			return g
		}
		c = &controls{
			mark: find(rewrite.MarkGlobal), announce: find(rewrite.AnnounceGlobal), calls: find(rewrite.CallsGlobal), points: find(rewrite.PointsGlobal),
			depth: find(rewrite.DepthGlobal), visited: find(rewrite.VisitedGlobal), limit: find(rewrite.LimitGlobal),
		}
		w.controls[m] = c
	}
	return c
}

// outcome is the result of a command.
type outcome struct {
	results []uint64
	err     error
}

func newWorld(tb testing.TB, config wazero.RuntimeConfig, o *rewrite.Options, random *rand.Rand) *world {
	tb.Helper()
	ctx := context.Background()
	w := &world{tb: tb, ctx: ctx, runtime: wazero.NewRuntimeWithConfig(ctx, config), options: o, random: random, named: map[string]api.Module{}, controls: map[api.Module]*controls{}}
	tb.Cleanup(func() { w.runtime.Close(ctx) })
	_, err := w.runtime.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(w.sample), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}, nil). // without reflection
		Export(rewrite.SampleFunction).
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
func (w *world) sample(_ context.Context, m api.Module, parameters []uint64) {
	reason, number := api.DecodeU32(parameters[0]), parameters[1]&rewrite.AllNumbers
	c := w.controlsOf(m)
	if !w.options.Marks {
		c.mark.Set(0)
		return
	}
	if w.model != nil {
		w.model.sample(m, reason, number)
	}
	c.visited.Set(number)
	w.mark(c)
	if w.options.Calls {
		c.calls.Set(w.random.Uint64() & 1)
	}
	if w.options.Points {
		c.points.Set(w.random.Uint64() & 1)
	}
	c.announce.Set(w.random.Uint64())
}

// mark sets the mark, or clears it.
func (w *world) mark(c *controls) {
	set := w.random.Uint64() & 1
	c.mark.Set(set)
	limit := c.visited.Get()
	if set != 0 {
		limit = rewrite.AllNumbers
	}
	c.limit.Set(limit)
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
		c := w.controlsOf(m)
		c.depth.Set(0)
		c.visited.Set(0)
		w.mark(c)
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
