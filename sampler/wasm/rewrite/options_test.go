package rewrite_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// TestOptionsAddGlobals: a module has the globals that its options ask for.
func TestOptionsAddGlobals(t *testing.T) {
	t.Parallel()
	for _, o := range []rewrite.Options{{}, {Marks: true}, {Calls: true}, {Exact: true}, {Marks: true, Calls: true, Exact: true}} {
		polls := uint64(0)
		m := rewritten(t, fibGuest(), o)
		guest := countPolls(t, m.Binary, &polls)
		for name, want := range map[string]bool{
			rewrite.MarkGlobal: true, rewrite.AnnounceGlobal: true, rewrite.CallsGlobal: o.Calls,
			rewrite.DepthGlobal: o.Marks, rewrite.VisitedGlobal: o.Marks, rewrite.ExecutedGlobal: o.Exact,
		} {
			if got := guest.ExportedGlobal(name) != nil; got != want {
				t.Errorf("%+v: %s is there: %v", o, name, got)
			}
		}
		if m.Marks != o.Marks {
			t.Errorf("%+v: marks %v", o, m.Marks)
		}
		if results, err := guest.ExportedFunction("fib").Call(context.Background(), 10); err != nil || results[0] != 55 || polls != 177 {
			t.Errorf("%+v: fib(10) = %v, %v with %d polls", o, results, err, polls)
		}
	}
}

// TestImportsHeal: a call back whose end nobody told the guest of leaves depth and
// visited as they were in it; behind the import that made it they are right again.
func TestImportsHeal(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	samples := 0
	sample := func(_ context.Context, m api.Module, reason uint32) {
		samples++
		depth, visited := global(m, rewrite.DepthGlobal), global(m, rewrite.VisitedGlobal)
		if depth.Get() != 1 || visited.Get() > 1 {
			t.Errorf("reason %d: depth %d, visited %d", reason, depth.Get(), visited.Get())
		}
	}
	leave := func(_ context.Context, m api.Module) {
		global(m, rewrite.DepthGlobal).Set(7)
		global(m, rewrite.VisitedGlobal).Set(5)
	}
	if _, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(leave).Export("leave").Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(sample).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.CallFunction).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	plain := build(
		section(1, 1, 0x60, 0, 0),
		section(2, append([]byte{1}, "\x03env\x05leave\x00\x00"...)...),
		section(3, 1, 0),
		section(7, 1, 1, 'f', 0, 1),
		section(10, 1, 4, 0x00, 0x10, 0, 0x0b),
	)
	guest, err := r.Instantiate(ctx, rewritten(t, plain, rewrite.Options{Marks: true}).Binary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guest.ExportedFunction("f").Call(ctx); err != nil || samples != 2 {
		t.Errorf("%v, %d samples", err, samples)
	}
}
