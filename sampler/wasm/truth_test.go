package wasm

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// truth runs a guest as it is, with a listener on every function, also the host's.
//
// all counts all activations. found counts the activations that samples at every safe
// point are certain to find, because they have called a function with safe points.
//
// wazero does not report two kinds of ends: the end of a function that makes a tail call,
// and the ends after a stack overflow. Its stack shows the first, the next call shows
// both.
type truth struct {
	calls []trueCall
	bare  map[string]bool
	all   paths
	found paths
}

// trueCall is an unfinished activation.
type trueCall struct {
	name  string
	host  bool
	stack experimental.StackIterator // each of wazero's stacks has one
	calls bool                       // it has called a function with safe points
}

// deepest bounds the stacks whose contexts are counted and compared, because an
// overflowing stack would cost the square of its depth.
const deepest = 24

func (t *truth) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	return t
}

func (t *truth) Before(_ context.Context, _ api.Module, def api.FunctionDefinition, _ []uint64, stack experimental.StackIterator) {
	t.endUnreported(stack)
	name, host := trueName(def), def.GoFunction() != nil
	if n := len(t.calls) - 1; n >= 0 && !t.bare[name] && !t.calls[n].calls {
		t.calls[n].calls = true
		t.count(t.found)
	}
	t.calls = append(t.calls, trueCall{name: name, host: host, stack: stack})
	t.count(t.all)
}

// endUnreported ends the calls whose end wazero has not reported, when a function is called
// on a stack.
func (t *truth) endUnreported(stack experimental.StackIterator) {
	on := func(c trueCall) bool { return c.stack == stack }
	if !slices.ContainsFunc(t.calls, on) { // a host has called
		for n := len(t.calls); n > 0 && !t.calls[n-1].host; n-- {
			t.calls = t.calls[:n-1]
		}
		return
	}
	for n := len(t.calls); !on(t.calls[n-1]); n-- {
		t.calls = t.calls[:n-1]
	}
	frames, known := 0, 0
	for frames <= deepest && stack.Next() {
		frames++
	}
	if frames > deepest {
		return
	}
	for n := len(t.calls); known < n && on(t.calls[n-1-known]); {
		known++
	}
	t.calls = t.calls[:len(t.calls)-max(known-(frames-1), 0)]
}

// count counts the innermost activation in its context.
func (t *truth) count(in paths) {
	if len(t.calls) > deepest {
		return
	}
	var path strings.Builder
	for _, c := range t.calls {
		path.WriteString("/" + c.name)
	}
	in[path.String()]++
}

// trueName is a function's name in package symbols.
func trueName(def api.FunctionDefinition) string {
	name := def.DebugName()
	if _, inner, ok := strings.Cut(name, "."); ok && def.GoFunction() == nil {
		return inner
	}
	return name
}

// end ends the innermost activation of a function, and those above it. There may be no
// activation: wazero has compiled its tail call as a plain call.
func (t *truth) end(def api.FunctionDefinition) {
	name := trueName(def)
	for n := len(t.calls) - 1; n >= 0; n-- {
		if t.calls[n].name == name {
			t.calls = t.calls[:n]
			return
		}
	}
}

func (t *truth) After(_ context.Context, _ api.Module, def api.FunctionDefinition, _ []uint64) {
	t.end(def)
}

func (t *truth) Abort(_ context.Context, _ api.Module, def api.FunctionDefinition, _ error) {
	t.end(def)
}

// newTruth returns a runtime that runs guests as they are, and an instance.
func newTruth(t testing.TB, binary []byte, callback hostFunction) (*truth, api.Module) {
	t.Helper()
	tr := &truth{all: paths{}, found: paths{}}
	ctx := experimental.WithFunctionListenerFactory(context.Background(), tr)
	r := wazero.NewRuntimeWithConfig(ctx, compiling())
	t.Cleanup(func() { r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	provide(t, ctx, r, callback)
	c, err := r.CompileModule(ctx, binary)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := r.InstantiateModule(ctx, c, anonymous())
	if err != nil {
		t.Fatal(err)
	}
	return tr, guest
}
