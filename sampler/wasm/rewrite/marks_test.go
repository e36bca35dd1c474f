package rewrite_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// model is the truth that Depth and Visited are compared with: a stack of all
// activations, kept by listeners on every function.
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
}

func (m *model) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener { return m }

func (m *model) Before(_ context.Context, instance api.Module, f api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	m.stack = append(m.stack, activation{instance: instance, function: f.Index()})
}

func (m *model) After(context.Context, api.Module, api.FunctionDefinition, []uint64) { m.pop() }

func (m *model) Abort(context.Context, api.Module, api.FunctionDefinition, error) { m.pop() }

func (m *model) pop() { m.stack = m.stack[:len(m.stack)-1] }

// instrumented are the activations of an instance that have a depth: those of
// counted functions, and the innermost if its function is polled.
func (m *model) instrumented(instance api.Module) (all []*activation, depth uint64) {
	module := m.modules[instance]
	if module == nil { // its start function runs
		module = m.next
		m.modules[instance] = module
	}
	for i := range m.stack {
		a := &m.stack[i]
		f, ok := module.Function(a.function)
		if a.instance != instance || !ok {
			continue
		}
		switch module.Functions[int(f)-module.Imported] {
		case rewrite.Counted:
			all = append(all, a)
			depth++
		case rewrite.Polled:
			if i == len(m.stack)-1 {
				all = append(all, a)
			}
		}
	}
	return all, depth
}

// sample compares the globals with the truth, and marks what is on the stack.
func (m *model) sample(instance api.Module, reason uint32) {
	all, depth := m.instrumented(instance)
	if got := global(instance, rewrite.DepthGlobal).Get(); got != depth {
		m.tb.Errorf("reason %d: depth %d, want %d", reason, got, depth)
	}
	seen := uint64(0)
	for i, a := range all {
		if a.seen && uint64(i) == seen {
			seen++
		}
		a.seen = true
	}
	visited := global(instance, rewrite.VisitedGlobal)
	if visited.Get() != seen {
		m.tb.Errorf("reason %d: visited %d, want %d of %d", reason, visited.Get(), seen, len(all))
	}
	visited.Set(uint64(len(all)))
	m.samples++
}

// TestMarksAreExact carries out the scripts of the suite that are about calls
// and branches, with samples at random safe points.
func TestMarksAreExact(t *testing.T) {
	t.Parallel()
	samples := 0
	for _, name := range []string{
		"block", "br", "br_if", "br_table", "call", "call_indirect", "fac", "float_exprs", "forward", "func", "func_ptrs", "if", "imports",
		"labels", "left-to-right", "linking", "loop", "nop", "return", "select", "stack", "start", "switch", "unreachable", "unwind",
	} {
		file := filepath.Join(suiteDir(t, "v2"), name+".json")
		p := pair{tb: t, script: readScript(t, file), plain: newWorld(t, api.CoreFeaturesV2, nil, nil)}
		m := &model{tb: t, modules: map[api.Module]*rewrite.Module{}}
		p.rewritten = newWorld(t, api.CoreFeaturesV2, &marked, rand.New(rand.NewPCG(3, 4)))
		p.rewritten.model = m
		p.rewritten.ctx = experimental.WithFunctionListenerFactory(p.rewritten.ctx, m)
		p.run()
		samples += m.samples
	}
	if samples < 300 {
		t.Errorf("only %d samples", samples)
	}
}
