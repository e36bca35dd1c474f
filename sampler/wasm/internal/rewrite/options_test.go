package rewrite_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// TestOptionsAddGlobals: a module has the globals that its options ask for.
func TestOptionsAddGlobals(t *testing.T) {
	t.Parallel()
	for _, o := range []rewrite.Options{
		{}, {Marks: true}, {Calls: true}, {Exact: true}, {Marks: true, Calls: true, Exact: true},
		{Marks: true, TailCalls: true}, {MultiValue: true, Marks: true, TailCalls: true}, {Points: true},
	} {
		polls := uint64(0)
		m := rewritten(t, fibGuest(), o)
		guest := countPolls(t, m.Binary, &polls)
		for name, want := range map[string]bool{
			rewrite.MarkGlobal: true, rewrite.AnnounceGlobal: true, rewrite.CallsGlobal: o.Calls,
			rewrite.DepthGlobal: o.Marks, rewrite.VisitedGlobal: o.Marks, rewrite.LimitGlobal: o.Marks, rewrite.ExecutedGlobal: o.Exact,
			rewrite.PointsGlobal: o.Points,
		} {
			if got := guest.ExportedGlobal(name) != nil; got != want {
				t.Errorf("%+v: %s is there: %v", o, name, got)
			}
		}
		if results, err := guest.ExportedFunction("fib").Call(context.Background(), 10); err != nil || results[0] != 55 || polls != 177 {
			t.Errorf("%+v: fib(10) = %v, %v with %d polls", o, results, err, polls)
		}
	}
}

// TestDepthAtImports: a call back may leave any value in Depth. It is right again at the
// next call of an import.
func TestDepthAtImports(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	var depths, numbers []uint64
	leave := func(_ context.Context, m api.Module) {
		depth := global(m, rewrite.DepthGlobal)
		depths = append(depths, depth.Get())
		depth.Set(7)
	}
	if _, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(leave).Export("leave").Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(func(_, number uint32) { numbers = append(numbers, uint64(number)) }).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	plain := build(
		section(1, 1, 0x60, 0, 0),
		section(2, append([]byte{1}, "\x03env\x05leave\x00\x00"...)...),
		section(3, 1, 0),
		section(7, 1, 1, 'f', 0, 1),
		section(10, 1, 6, 0x00, 0x10, 0, 0x10, 0, 0x0b),
	)
	guest, err := r.Instantiate(ctx, rewritten(t, plain, rewrite.Options{MultiValue: true, Marks: true, Announce: announced}).Binary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guest.ExportedFunction("f").Call(ctx); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([][]uint64{{1, 1}, {1, 1, 1, 1, 1}}, [][]uint64{depths, numbers}); d != "" {
		t.Errorf("depths and numbers, want to got:\n%s", d)
	}
}

// TestLimitFallsToVisited: after one entry without a request, others do not ask again.
func TestLimitFallsToVisited(t *testing.T) {
	t.Parallel()
	for _, o := range []rewrite.Options{markedOld, marked, stubbed} {
		polls := uint64(0)
		guest := countPolls(t, rewritten(t, fibGuest(), o).Binary, &polls)
		global(guest, rewrite.MarkGlobal).Set(0)
		global(guest, rewrite.VisitedGlobal).Set(5)
		if _, err := guest.ExportedFunction("fib").Call(context.Background(), 10); err != nil {
			t.Fatal(err)
		}
		visited, limit := global(guest, rewrite.VisitedGlobal).Get(), global(guest, rewrite.LimitGlobal).Get()
		if visited != 0 || limit != 0 || polls != 0 {
			t.Errorf("visited %d, limit %d, %d polls", visited, limit, polls)
		}
	}
}
