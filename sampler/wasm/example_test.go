package wasm_test

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// A program that embeds wazero profiles its own guests with two lines, and reads the map
// while they run.
func Example() {
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)

	profiler := wasm.New(runtime, wasm.Options{})
	session, err := manager.Start(ctx, manager.Config{Source: profiler})
	if err != nil {
		fmt.Println(err)
		return
	}
	compiled, err := profiler.CompileModule(ctx, guests.Small("fib")) // not runtime.CompileModule
	if err != nil {
		fmt.Println(err)
		return
	}
	guest, err := runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	for session.Snapshot().Total().Samples == 0 { // live
		if _, err := guest.ExportedFunction("fib").Call(ctx, 25); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := session.Stop(); err != nil {
		fmt.Println(err)
		return
	}
	for m := range session.Snapshot().Methods() {
		fmt.Println(m.Method().Name, m.Method().Signature, m.Self().Time > 0)
	}
	// Output: fib (i32) i32 true
}
