package rewrite_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// A programHost runs a program and looks at it at safe points, as a host does.
type programHost struct {
	t      *testing.T
	random *rand.Rand
	tail   bool            // the program makes tail calls, which have no ids
	module *rewrite.Module // nil: original
	call   uint32          // of "f"
	seen   map[uint32]bool // ids

	points map[uint32]map[uint32]uint32 // counts by site and value; nil: none are wanted
	memory []byte                       // of the guest, at the end
}

// point counts a report.
func (h *programHost) point(site, value uint32) {
	if h.points == nil {
		return
	}
	if h.points[site] == nil {
		h.points[site] = map[uint32]uint32{}
	}
	h.points[site][value]++
}

// run returns the outcome of three calls of "f".
func (h *programHost) run(binary []byte, features api.CoreFeatures) (text string, err error) {
	h.t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features))
	defer r.Close(ctx)
	sample := func(_ context.Context, m api.Module, _, number uint32) { h.sample(m, number, 0) }
	call := func(_ context.Context, m api.Module, _, _, number uint32) { h.sample(m, number, 1) }
	_, err = r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(sample).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(call).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(h.point).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err != nil {
		return "", err
	}
	_, err = r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export("host").Instantiate(ctx)
	if err != nil {
		return "", err
	}
	guest, err := r.Instantiate(ctx, binary)
	if err != nil {
		return "", err
	}
	if h.points != nil {
		global(guest, rewrite.PointsGlobal).Set(1)
	}
	for h.call = range 3 {
		h.enter(guest)
		results, err := guest.ExportedFunction("f").Call(ctx, uint64(h.call))
		if err != nil {
			return "", err
		}
		text += fmt.Sprint(results, globals(guest, programGlobals))
	}
	h.memory = bytes.Clone(memory(guest))
	return text, nil
}

// enter does a host's work at an entry from outside.
func (h *programHost) enter(m api.Module) {
	h.seen = map[uint32]bool{}
	if isNumbered(m) {
		global(m, rewrite.DepthGlobal).Set(0)
		global(m, rewrite.VisitedGlobal).Set(0)
		h.mark(m, 0)
	}
}

// isNumbered: the guest numbers its activations.
func isNumbered(m api.Module) bool { return m.ExportedGlobal(rewrite.VisitedGlobal) != nil }

// mark sets the globals that make the guest call the host, at random.
func (h *programHost) mark(m api.Module, visited uint64) {
	mark, limit := h.random.Uint64()&1, visited
	if mark != 0 {
		limit = rewrite.AllNumbers
	}
	global(m, rewrite.MarkGlobal).Set(mark)
	global(m, rewrite.LimitGlobal).Set(limit)
	global(m, rewrite.AnnounceGlobal).Set(h.random.Uint64())
	if points := m.ExportedGlobal(rewrite.PointsGlobal); points != nil && h.points == nil {
		points.(api.MutableGlobal).Set(h.random.Uint64() & 1)
	}
	if calls := m.ExportedGlobal(rewrite.CallsGlobal); calls != nil {
		calls.(api.MutableGlobal).Set(h.random.Uint64() & 1)
	}
}

// sample compares the guest's facts with the ids of its calls, except the calls to come.
func (h *programHost) sample(m api.Module, flagged, calls uint32) {
	if !isNumbered(m) {
		return
	}
	number := uint64(flagged & rewrite.AllNumbers)
	visited := min(global(m, rewrite.VisitedGlobal).Get(), number)
	if activations, seen := h.look(m, calls); !h.tail && (number != activations || visited != seen) {
		h.t.Errorf("number %d, visited %d, want %d and %d", number, visited, activations, seen)
	}
	global(m, rewrite.VisitedGlobal).Set(number)
	h.mark(m, number)
}

// look counts the activations, and the seen ones among them, and sees all.
func (h *programHost) look(m api.Module, calls uint32) (activations, seen uint64) {
	ids := []uint32{0} // of "f"
	depth := uint32(m.(experimental.InternalModule).Global(programDepth).Get())
	for i := range depth - calls {
		id, _ := m.Memory().ReadUint32Le(4 * (i + 1))
		ids = append(ids, id)
	}
	for _, id := range ids {
		if h.seen[id] {
			seen++
		}
		h.seen[id] = true
	}
	return uint64(len(ids)), seen
}
