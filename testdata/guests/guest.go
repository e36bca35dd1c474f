// Package guests gives WebAssembly modules to tests and benchmarks, and the truth about
// each, for comparison with profiles.
//
//   - Small guests are written by hand, a page each, and committed with their
//     binaries: [Small].
//   - Built guests are Go and C programs of this folder, compiled by the
//     installed toolchains: [Go], [C].
//   - Fetched guests are other people's programs, from the module proxy
//     and the npm registry, pinned by version and digest: [Fetch].
//
// Built and fetched guests are kept in a cache outside the repository, see [Dir].
package guests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// Guest is a real program and a run of it with known output.
type Guest struct {
	Name  string
	Args  []string // of a command, after its name
	Stdin string   // of a command
	Want  string   // the run's standard output, or the result of Run

	From   Origin
	obtain func(context.Context) (path string, err error)
	drive  func(context.Context, api.Module) (output string, err error) // nil: the guest is a command
}

// Origin is where a guest comes from, by what that needs beside Go.
type Origin string

// The origins.
const (
	FromGo    Origin = ""      // built by the installed Go
	FromClang Origin = "clang" // built by clang, with lld and wasi-libc
	FromNPM   Origin = "npm"   // fetched from its registry
	FromProxy Origin = "proxy" // fetched from Go's module proxy
)

// Path builds or fetches the guest's module and returns its path.
func (g Guest) Path(ctx context.Context) (string, error) { return g.obtain(ctx) }

// Command reports whether the guest is a WASI command, which imports only
// wasi_snapshot_preview1 and starts at _start: a runtime's command line can run it. Other
// guests are libraries, which only Run can drive. No guest needs a mount.
func (g Guest) Command() bool { return g.drive == nil }

// Host gives a runtime the imports of a compiled guest: WASI, and for libraries host
// functions that do nothing and return zeros. It does so once a runtime, even if several
// compilations of a guest run on it.
func Host(ctx context.Context, r wazero.Runtime, compiled wazero.CompiledModule) error {
	if r.Module(wasi_snapshot_preview1.ModuleName) == nil {
		if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
			return fmt.Errorf("instantiate WASI: %w", err)
		}
	}
	if r.Module(stubs) != nil {
		return nil
	}
	env := r.NewHostModuleBuilder(stubs)
	for _, f := range compiled.ImportedFunctions() {
		if module, name, _ := f.Import(); module == stubs {
			env.NewFunctionBuilder().WithGoFunction(stub(len(f.ResultTypes())), f.ParamTypes(), f.ResultTypes()).Export(name)
		}
	}
	if _, err := env.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate host functions: %w", err)
	}
	return nil
}

// stubs is the module of the functions that libraries import from their embedder: files, time
// zones, callbacks. These runs need none of it.
const stubs = "env"

func stub(results int) api.GoFunc {
	return func(_ context.Context, stack []uint64) { clear(stack[:results]) }
}

// Run instantiates a compiled guest, original or rewritten, on a runtime that Host has
// prepared, runs it to its end and returns its output: compare it with Want.
func (g Guest) Run(ctx context.Context, r wazero.Runtime, compiled wazero.CompiledModule) (output string, err error) {
	var stdout, stderr bytes.Buffer
	module, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").
		WithArgs(append([]string{g.Name}, g.Args...)...).WithStdin(strings.NewReader(g.Stdin)).
		WithStdout(&stdout).WithStderr(&stderr).
		WithSysNanotime().WithSysWalltime().WithStartFunctions("_initialize", "_start"))
	if exit := new(sys.ExitError); errors.As(err, &exit) && exit.ExitCode() == 0 {
		return stdout.String(), nil
	}
	if err != nil {
		return "", fmt.Errorf("run %s: %w\n%s", g.Name, err, stderr.String())
	}
	defer module.Close(ctx)
	if g.Command() {
		return stdout.String(), nil
	}
	return g.drive(ctx, module)
}
