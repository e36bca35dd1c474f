package rewrite_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// model is the truth for numbers and Visited: a stack of all activations, kept by
// listeners on every function. Like a host, it restores Depth at the ends of entries.
type model struct {
	tb      testing.TB
	modules map[api.Module]*rewrite.Module
	next    *rewrite.Module // about to be instantiated
	stack   []activation
	samples int
}

type activation struct {
	instance api.Module
	function uint32 // in the rewritten module
	seen     bool
	entry    bool
	depth    uint64 // before it, of an entry
}

func (m *model) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener { return m }

func (m *model) Before(_ context.Context, instance api.Module, f api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	a := activation{instance: instance, function: f.Index(), depth: global(instance, rewrite.DepthGlobal).Get()}
	_, a.entry = m.module(instance).Entries[f.Index()]
	m.stack = append(m.stack, a)
}

// module returns the module of an instance.
func (m *model) module(instance api.Module) *rewrite.Module {
	if m.modules[instance] == nil { // its start function runs
		m.modules[instance] = m.next
	}
	return m.modules[instance]
}

func (m *model) After(context.Context, api.Module, api.FunctionDefinition, []uint64) { m.pop() }

func (m *model) Abort(context.Context, api.Module, api.FunctionDefinition, error) { m.pop() }

func (m *model) pop() {
	a := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	if a.entry {
		global(a.instance, rewrite.DepthGlobal).Set(a.depth)
	}
}

// numbered are an instance's activations with numbers.
func (m *model) numbered(instance api.Module) (all []*activation) {
	module := m.module(instance)
	for i := range m.stack {
		a := &m.stack[i]
		f, ok := module.Function(a.function)
		if a.instance == instance && ok && module.Functions[int(f)-module.Imported] == rewrite.Polled {
			all = append(all, a)
		}
	}
	return all
}

// sample compares the globals with the truth, and marks the activations on the stack.
func (m *model) sample(instance api.Module, reason uint32, number uint64) {
	all := m.numbered(instance)
	if number != uint64(len(all)) {
		m.tb.Errorf("reason %d: number %d, want %d", reason, number, len(all))
	}
	seen := uint64(0)
	for i, a := range all {
		if a.seen && uint64(i) == seen {
			seen++
		}
		a.seen = true
	}
	if got := min(global(instance, rewrite.VisitedGlobal).Get(), number); got != seen {
		m.tb.Errorf("reason %d: visited %d, want %d of %d", reason, got, seen, len(all))
	}
	m.samples++
}

// TestMarksAreExact runs the suite's scripts on calls and branches, with samples at
// random safe points.
func TestMarksAreExact(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	for _, o := range []*rewrite.Options{&marked, &exact} {
		samples := 0
		for _, name := range []string{
			"block", "br", "br_if", "br_table", "call", "call_indirect", "fac", "float_exprs", "forward", "func", "func_ptrs", "if", "imports",
			"labels", "left-to-right", "linking", "loop", "nop", "return", "select", "stack", "start", "switch", "unreachable", "unwind",
		} {
			samples += sampleScript(t, filepath.Join(suiteDir(t, "v2"), name+".json"), o)
		}
		if samples < 300 {
			t.Errorf("%+v: only %d samples", o, samples)
		}
	}
}

func sampleScript(t *testing.T, file string, o *rewrite.Options) (samples int) {
	t.Helper()
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2)
	p := pair{tb: t, script: readScript(t, file), plain: newWorld(t, config, nil, nil)}
	m := &model{tb: t, modules: map[api.Module]*rewrite.Module{}}
	p.rewritten = newWorld(t, config, o, rand.New(rand.NewPCG(3, 4)))
	p.rewritten.model = m
	p.rewritten.ctx = experimental.WithFunctionListenerFactory(p.rewritten.ctx, m)
	p.run()
	return m.samples
}
