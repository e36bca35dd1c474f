package wasm

import (
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// overflows calls back until the stack overflows, which the guest never gets to know,
// and then as the guest wants it. It calls mark before anything else of the guest runs.
func overflows(mark func(api.Module)) hostFunction {
	return func(ctx context.Context, guest api.Module, n int32) {
		mark(guest)
		if _, err := guest.ExportedFunction("descend").Call(ctx); err == nil {
			panic("the stack does not overflow")
		}
		mark(guest)
		reenter(ctx, guest, n)
		mark(guest)
	}
}

// A host function swallows that its call back has overflowed, and its caller goes on:
// no activation is counted anew, and all stacks are whole.
func TestOverflowInCallBack(t *testing.T) {
	t.Parallel()
	binary := guests.Small("survive")
	tr, plain := newTruth(t, binary, overflows(func(api.Module) {}))
	if _, err := plain.ExportedFunction("run").Call(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	p := newProfile(t, Options{Options: managed.Options{Interval: -1}}, compiling())
	provide(t, context.Background(), p.runtime, overflows(func(api.Module) { p.profiler.Mark(1000) }))
	guest := p.instantiate(p.compile(binary))
	p.mark(guest)
	if _, err := guest.ExportedFunction("run").Call(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	checkHealed(t, guest)
	p.checkAtMost(tr.all)
	const outer, inner = "/run/leave/env.callback", "/leave/env.callback/reenter"
	want := paths{
		"/run":                      1,
		"/run/leave":                2,
		outer:                       2,
		outer + "/descend":          2,
		outer + "/reenter":          2,
		outer + "/reenter" + inner:  2,
		"/run/env.callback/reenter": 1,
	}
	p.checkAtLeast(want)
	for path, n := range p.contexts() {
		if strings.HasPrefix(path, "/"+ccmap.TruncatedName) {
			t.Errorf("%d activations of %s", n, path)
		}
	}
}
