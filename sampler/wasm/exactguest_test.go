package wasm

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// exactHost is a runtime that records all calls of one guest, and folds them.
type exactHost struct {
	profiler *Profiler
	runtime  wazero.Runtime
	module   wazero.CompiledModule

	folded *ccmap.Map
	stop   context.CancelFunc
	ended  chan struct{}
}

// newExactHost compiles a guest, and begins to record it.
func newExactHost(t testing.TB, binary []byte, points ...managed.Points) *exactHost {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	h := &exactHost{stop: stop, ended: make(chan struct{})}
	h.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2|experimental.CoreFeaturesTailCall).WithCloseOnContextDone(true))
	t.Cleanup(func() { h.runtime.Close(context.Background()) })
	o := Options{Exact: true}
	for _, p := range points {
		o.Points |= p
	}
	h.profiler = New(h.runtime, o)
	h.folded = ccmap.New(ccmap.Options{Names: h.profiler.Sink().Names})
	h.provide(t)
	var err error
	if h.module, err = h.profiler.CompileModule(ctx, binary); err != nil {
		t.Fatal(err)
	}
	go h.fold(ctx)
	return h
}

// provide instantiates the guests' imports.
func (h *exactHost) provide(t testing.TB) {
	t.Helper()
	_, err := h.runtime.NewHostModuleBuilder("env").NewFunctionBuilder().
		WithFunc(func(ctx context.Context, guest api.Module, n int32) {
			if _, err := guest.ExportedFunction("reenter").Call(ctx, uint64(n)); err != nil {
				panic(err)
			}
		}).Export("callback").Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wasi_snapshot_preview1.MustInstantiate(t.Context(), h.runtime)
}

// fold does the manager's work until the profiler ends.
func (h *exactHost) fold(ctx context.Context) {
	defer close(h.ended)
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.profiler.Run(ctx)
	}()
	q := h.profiler.Sink().Queue
	for {
		select {
		case <-q.Ready():
			q.Drain(h.folded.Fold)
		case <-over:
			q.Drain(h.folded.Fold)
			return
		}
	}
}

func (h *exactHost) instantiate(t testing.TB) api.Module {
	t.Helper()
	m, err := h.runtime.InstantiateModule(t.Context(), h.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// call calls an export of an instance, which may fail.
func call(t testing.TB, m api.Module, export string, params ...uint64) error {
	t.Helper()
	_, err := m.ExportedFunction(export).Call(t.Context(), params...)
	return err
}

// end ends the recording.
func (h *exactHost) end() {
	h.stop()
	<-h.ended
}

// finish ends the recording, and checks that it is complete.
func (h *exactHost) finish(t testing.TB) *ccmap.Snapshot {
	t.Helper()
	h.end()
	if s := h.profiler.Sink().Queue.Stats(); s.Dropped > 0 || s.Pushed != s.Delivered {
		t.Errorf("%+v", s)
	}
	if loss := h.folded.Meta().Loss; loss != (ccmap.Loss{}) || !h.folded.ActivationsExact() {
		t.Errorf("lost %+v, exact: %v", loss, h.folded.ActivationsExact())
	}
	return h.folded.Snapshot()
}

// record calls an export of a guest once and returns the complete map.
func record(t testing.TB, binary []byte, export string, params ...uint64) (*ccmap.Snapshot, error) {
	t.Helper()
	h := newExactHost(t, binary)
	err := call(t, h.instantiate(t), export, params...)
	return h.finish(t), err
}

// calls returns the activations of every stack. A stack is written from the outermost
// name on, with the positions of the calls.
func calls(s *ccmap.Snapshot) map[string]int64 {
	all := make(map[string]int64)
	paths := make([]string, s.Len())
	for n := range s.Nodes() {
		if n.ID == 0 || n.Method == ccmap.NoMethod {
			continue
		}
		name := s.Names().At(n.Method).Name
		if n.Parent != 0 {
			name = fmt.Sprintf("%s@%d %s", paths[n.Parent], n.Offset, name)
		}
		paths[n.ID] = name
		if n.Self.Activations > 0 {
			all[name] = n.Self.Activations
		}
	}
	return all
}

// byMethod returns the activations of each method.
func byMethod(s *ccmap.Snapshot) map[string]int64 {
	all := make(map[string]int64)
	for n := range s.Nodes() {
		if n.Self.Activations > 0 {
			all[s.Names().At(n.Method).Name] += n.Self.Activations
		}
	}
	return all
}

// canonical returns time and calls of every stack. Maps are equal if these are equal.
func canonical(s *ccmap.Snapshot) []string {
	var all []string
	paths := make([]string, s.Len())
	for n := range s.Nodes() {
		if n.ID != 0 {
			paths[n.ID] = fmt.Sprintf("%s@%d %s", paths[n.Parent], n.Offset, s.Names().At(n.Method).Name)
			all = append(all, fmt.Sprintf("%s: %d ns, %d calls", paths[n.ID], n.Self.Time, n.Self.Activations))
		}
	}
	slices.Sort(all)
	return all
}

// methodNamed returns the totals of the method with a name and any signature.
func methodNamed(t testing.TB, s *ccmap.Snapshot, name string) ccmap.MethodProfile {
	t.Helper()
	for id := range ccmap.MethodID(s.Names().Len()) {
		if p, ok := s.Method(id); ok && s.Names().At(id).Name == name {
			return p
		}
	}
	t.Fatalf("no method %q", name)
	panic("unreachable")
}
