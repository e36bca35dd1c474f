package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
	"github.com/ccmapd/ccmapd/sampler/wasm/symbols"
)

// guest is a WebAssembly module that runs in this process, on wazero, with WASI
// preview 1 as its system.
type guest struct {
	module  *module
	args    []string // without the module's name
	config  wazero.ModuleConfig
	runtime wazero.Runtime

	progress io.Writer // that says when compiling takes long; nil: nothing does

	profiler *wasm.Profiler // nil: it is not sampled
	compiled wazero.CompiledModule
}

// oldWASI is the module name of WASI before preview 1 had its own, which programs
// of 2019 import.
const oldWASI = "wasi_unstable"

// features are all of wazero 1.12 but threads, which WASI preview 1 does not start.
const features = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst |
	experimental.CoreFeaturesExceptionHandling | experimental.CoreFeaturesTypedFunctionReferences

// newGuest makes a runtime for a module, which is not compiled yet. What the guest
// has of the outside is what the command line of wazero gives: the arguments after
// the base name of its file, the standard streams, real clocks and randomness.
func newGuest(ctx context.Context, env *environment, m *module, args []string, c wazero.ModuleConfig) (*guest, error) {
	g := &guest{module: m, args: args, runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))}
	g.config = c.WithArgs(append([]string{filepath.Base(m.path)}, args...)...).
		WithStdin(env.stdin).WithStdout(terminal.Unguarded(env.stdout)).WithStderr(terminal.Unguarded(env.stderr)).
		WithRandSource(rand.Reader).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithOsyield(runtime.Gosched).
		WithStartFunctions() // run calls it
	for _, name := range []string{wasi_snapshot_preview1.ModuleName, oldWASI} {
		host := g.runtime.NewHostModuleBuilder(name)
		wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(host)
		if _, err := host.Instantiate(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("instantiate %s: %w", name, err), g.runtime.Close(ctx))
		}
	}
	return g, nil
}

// compiler compiles a module: a runtime, or a profiler that has one.
type compiler interface {
	CompileModule(ctx context.Context, binary []byte) (wazero.CompiledModule, error)
}

// compile makes the guest ready to run. Before that, which may take half a minute, it
// looks for imports that the guest cannot have.
func (g *guest) compile(ctx context.Context, by compiler) error {
	imports, err := symbols.Imports(g.module.binary)
	if err == nil { // else compiling says what is wrong
		err = g.checkImports(imports)
		if err != nil {
			return err
		}
	}
	defer sayCompiling(g.progress, g.module, time.After(compilingSlowly))()
	g.compiled, err = by.CompileModule(ctx, g.module.binary)
	if err != nil {
		return explainFeature(fmt.Errorf("compile module: %w", err))
	}
	return nil
}

// checkImports finds a function that nothing provides.
func (g *guest) checkImports(imports []symbols.Import) error {
	for _, f := range imports {
		host := g.runtime.Module(f.Module)
		if f.Module == rewrite.HostModule || host != nil && host.ExportedFunctionDefinitions()[f.Name] != nil {
			continue
		}
		return withHint(fmt.Errorf("module imports %q of %q, which nothing provides", f.Name, f.Module),
			"Only programs for WASI preview 1 can be run (wasm32-wasip1).")
	}
	return nil
}

// explainFeature adds to an error of wazero why a feature of WebAssembly is disabled:
// all that can be run are enabled.
func explainFeature(err error) error {
	text := err.Error()
	disabled := strings.Contains(text, "feature") && (strings.Contains(text, "is disabled") || strings.Contains(text, "not enabled")) // wazero 1.12
	switch {
	case !disabled:
		return err
	case strings.Contains(text, "threads"):
		return withHint(err, "No flag enables threads: programs for WASI preview 1 have one. Build the module without\n"+
			"atomic instructions and shared memory.")
	}
	return withHint(err, "No flag enables it: ccmapd enables all features that wazero can run. Build the module without it.")
}

// compilingSlowly is how long a module may compile before that is said.
const compilingSlowly = 1500 * time.Millisecond

// sayCompiling says on w that a module is being compiled, once slow has come, until
// stop is called. On a terminal the line goes away then.
func sayCompiling(w io.Writer, m *module, slow <-chan time.Time) (stop func()) {
	if w == nil {
		return func() {}
	}
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		select {
		case <-done:
			return
		case <-slow:
		}
		line := fmt.Sprintf("Compiling %s of %s, which may take a minute %s", terminal.Printable(filepath.Base(m.path)), figure.Bytes(int64(len(m.binary))), terminal.Ellipsis)
		if terminal.Width(w) == 0 {
			fmt.Fprintln(w, line)
			return
		}
		io.WriteString(w, line)
		<-done
		io.WriteString(terminal.Unguarded(w), terminal.ClearLine)
	})
	return func() {
		close(done)
		saying.Wait()
	}
}

// entry is the function in which WASI programs begin. Libraries have none.
const entry = "_start"

// run runs the guest to its end.
func (g *guest) run(ctx context.Context) guestEnd {
	m, err := g.runtime.InstantiateModule(ctx, g.compiled, g.config)
	if err != nil {
		return endOf(fmt.Errorf("instantiate module: %w", err))
	}
	if start := m.ExportedFunction(entry); start != nil {
		_, err = start.Call(ctx)
	}
	end := endOf(err)
	end.err = errors.Join(end.err, m.Close(ctx))
	return end
}

// isProgram reports whether the guest has anything to run but a start function.
func (g *guest) isProgram() bool { return g.compiled.ExportedFunctions()[entry] != nil }

// close frees the runtime, and the profiler if there is one. The guest must have
// ended.
func (g *guest) close(ctx context.Context) error {
	if g.profiler == nil {
		return g.runtime.Close(ctx)
	}
	return errors.Join(g.profiler.Close(ctx), g.runtime.Close(ctx))
}

// guestEnd is how a guest has ended.
type guestEnd struct {
	code int
	err  error // what it trapped with; nil if it exited
}

// What the text of a trap holds in its first line, before what happened, and then
// above the guest's stack (wazero 1.12, internal/wasmdebug). The first is missing
// where a host function panicked, both in errors of a module that cannot be
// instantiated.
const (
	trapTitle  = "wasm error: "
	stackTitle = "wasm stack trace:"
)

// endOf reads what a call of a guest has returned.
func endOf(err error) guestEnd {
	var exit *sys.ExitError
	switch {
	case err == nil:
		return guestEnd{}
	case errors.As(err, &exit):
		return guestEnd{code: int(exit.ExitCode())}
	case strings.Contains(err.Error(), stackTitle):
		return guestEnd{exitTrapped, err}
	}
	return guestEnd{exitCannotRun, err}
}

// reason says how the guest has ended, for people.
func (e guestEnd) reason() string {
	if e.err == nil {
		return fmt.Sprintf("module exited with code %d", e.code)
	}
	line, _, _ := strings.Cut(e.err.Error(), "\n")
	if e.code != exitTrapped {
		return "module was not started: " + line
	}
	if _, trap, found := strings.Cut(line, trapTitle); found {
		line = trap
	}
	return "module trapped: " + line
}

// exit returns the end as the exit code of ccmapd, with the trap's text.
func (e guestEnd) exit() error {
	if e.code == 0 && e.err == nil {
		return nil
	}
	return exitError(e)
}
