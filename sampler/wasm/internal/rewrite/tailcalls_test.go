package rewrite_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// tailGuest is a function "f" that calls 1. 1 makes a tail call of 2, with n parameters
// of a type, directly or through a table. 2 loops, and calls 3, which loops.
func tailGuest(n int, typ byte, indirect bool) []byte {
	zero := map[byte]string{i32: "\x41\x00", f64: "\x44\x00\x00\x00\x00\x00\x00\x00\x00"}[typ]
	tail := "\x12\x02"
	if indirect {
		tail = "\x41\x00\x13\x01\x00"
	}
	code := []byte{4}
	for _, body := range []string{
		"\x00\x10\x01\x0b",
		"\x00" + strings.Repeat(zero, n) + tail + "\x0b",
		"\x00\x03\x40\x41\x00\x0d\x00\x0b\x10\x03\x0b",
		"\x00\x03\x40\x41\x00\x0d\x00\x0b\x0b",
	} {
		code = append(append(code, byte(len(body))), body...)
	}
	params := bytes.Repeat([]byte{typ}, n)
	return build(
		section(1, append(append([]byte{2, 0x60, 0, 0, 0x60, byte(n)}, params...), 0)...),
		section(3, 4, 0, 0, 1, 0),
		section(4, 1, 0x70, 0, 1),
		section(7, 1, 1, 'f', 0, 0),
		section(9, 1, 0, 0x41, 0, 0x0b, 1, 2),
		section(10, code...),
	)
}

const f64 = 0x7c

// TestTailCallsKeepNumbers: whether or not wazero makes a real tail call, the stack has
// as many numbered frames as the innermost one's number says.
func TestTailCallsKeepNumbers(t *testing.T) {
	t.Parallel()
	for _, typ := range []byte{i32, f64} {
		for _, indirect := range []bool{false, true} {
			for n := range 24 {
				stubs, n := n%2 == 1, n/2
				t.Run(fmt.Sprintf("type=%#x/indirect=%v/stubs=%v/n=%d", typ, indirect, stubs, n), func(t *testing.T) {
					t.Parallel()
					o := rewrite.Options{MultiValue: true, TailCalls: stubs, Marks: true}
					m := rewritten(t, tailGuest(n, typ, indirect), o)
					f := &frameCounter{t: t, module: m}
					f.run()
					if f.samples < 4 {
						t.Errorf("%d samples", f.samples)
					}
				})
			}
		}
	}
}

// A frameCounter listens on the host function sample and compares the stack with the
// number.
type frameCounter struct {
	t       *testing.T
	module  *rewrite.Module
	samples int
}

func (f *frameCounter) run() {
	f.t.Helper()
	ctx := context.Background()
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall)
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer r.Close(ctx)
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(experimental.WithFunctionListenerFactory(ctx, f))
	if err != nil {
		f.t.Fatal(err)
	}
	guest, err := r.Instantiate(ctx, f.module.Binary)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := guest.ExportedFunction("f").Call(ctx); err != nil {
		f.t.Error(err)
	}
}

func (f *frameCounter) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener {
	return experimental.FunctionListenerFunc(f.sample)
}

func (f *frameCounter) sample(_ context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64, stack experimental.StackIterator) {
	f.samples++
	frames := uint32(0)
	for stack.Next() {
		index := stack.Function().Definition().Index()
		function, ok := f.module.Function(index)
		if ok && f.module.Functions[function] == rewrite.Polled {
			frames++
		} else if _, _, ok := f.module.Stub(index); ok {
			frames++
		}
	}
	if number := uint32(params[1]) & rewrite.AllNumbers; number != frames {
		f.t.Errorf("number %d, but %d frames", number, frames)
	}
}

// TestEntriesThatMakeTailCalls have thunks: wazero reports no return of such functions to
// their own listeners.
func TestEntriesThatMakeTailCalls(t *testing.T) {
	t.Parallel()
	exported := func(body string) []byte {
		return build(
			section(1, 1, 0x60, 0, 0), section(3, 2, 0, 0), section(7, 1, 1, 'f', 0, 0),
			section(10, append([]byte{2, byte(len(body))}, body+"\x02\x00\x0b"...)...),
		)
	}
	for body, entry := range map[string]uint32{"\x00\x10\x01\x0b": 2, "\x00\x12\x01\x0b": 4} {
		m := rewritten(t, exported(body), rewrite.Options{MultiValue: true})
		if d := cmp.Diff(map[uint32]uint32{entry: 0}, m.Entries); d != "" {
			t.Errorf("entries, want to got:\n%s", d)
		}
	}
}

// TestStubs: functions with listeners have no stubs. A stub makes tail calls, which
// wazero does not report to a listener.
func TestStubs(t *testing.T) {
	t.Parallel()
	guest := build(
		section(1, 1, 0x60, 0, 0), section(3, 3, 0, 0, 0), section(7, 1, 1, 'f', 0, 0),
		section(10, append([]byte{3}, "\x04\x00\x10\x01\x0b\x04\x00\x10\x02\x0b\x02\x00\x0b"...)...),
	)
	for _, c := range []struct {
		exact bool
		want  map[uint32][2]uint32 // function and position, by the stub
	}{{false, map[uint32][2]uint32{6: {1, 1}}}, {true, map[uint32][2]uint32{}}} {
		m := rewritten(t, guest, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true, Exact: c.exact})
		got := map[uint32][2]uint32{}
		for i := range uint32(m.Total) {
			if function, position, ok := m.Stub(i); ok {
				got[i] = [2]uint32{function, position}
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("exact=%v: stubs, want to got:\n%s", c.exact, d)
		}
	}
}

// exitGuest is "f" that calls 1, which is long, and returns 7 for 0 and 9 for all else,
// by a return and by its end.
func exitGuest() []byte {
	long := "\x00\x20\x00\x45\x04\x40\x41\x07\x0f\x0b" + strings.Repeat("\x01", 64) + "\x41\x09\x0b"
	f := "\x00\x20\x00\x10\x01\x0b"
	code := append([]byte{2, byte(len(f))}, f...)
	code = append(append(code, byte(len(long))), long...)
	return build(
		section(1, 1, 0x60, 1, i32, 1, i32),
		section(3, 2, 0, 0),
		section(7, 1, 1, 'f', 0, 0),
		section(10, code...),
	)
}

// TestPollsAtExits: a long function polls at its entry and at each exit, in place of its
// frame, with its number, and returns the same as before.
func TestPollsAtExits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := rewritten(t, exitGuest(), stubbed)
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall)
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer r.Close(ctx)
	var got [][3]uint32 // reason, number, position in function 1
	listener := experimental.FunctionListenerFunc(func(_ context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64, stack experimental.StackIterator) {
		for stack.Next() {
			if f, position, ok := m.Stub(stack.Function().Definition().Index()); ok && f == 1 {
				got = append(got, [3]uint32{uint32(params[0]), uint32(params[1]) & rewrite.AllNumbers, position})
			}
		}
	})
	factory := experimental.FunctionListenerFactoryFunc(func(api.FunctionDefinition) experimental.FunctionListener { return listener })
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(experimental.WithFunctionListenerFactory(ctx, factory))
	if err != nil {
		t.Fatal(err)
	}
	guest, err := r.Instantiate(ctx, m.Binary)
	if err != nil {
		t.Fatal(err)
	}
	for param, result := range map[uint64]uint64{0: 7, 1: 9} {
		if results, err := guest.ExportedFunction("f").Call(ctx, param); err != nil || results[0] != result {
			t.Errorf("f(%d) = %v, %v, want %d", param, results, err, result)
		}
	}
	slices.SortFunc(got, func(a, b [3]uint32) int { return slices.Compare(a[:], b[:]) })
	end := uint32(len("\x00\x20\x00\x45\x04\x40\x41\x07\x0f\x0b") + 64 + 2)
	want := [][3]uint32{{rewrite.ReasonEntry, 2, 1}, {rewrite.ReasonEntry, 2, 1}, {rewrite.ReasonLoop, 2, end}, {rewrite.ReasonLoop, 2, end}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("samples, want to got:\n%s", d)
	}
}
