// Package wasi runs WebAssembly modules in this process, on wazero, as programs for WASI
// preview 1.
//
// [Find] and [Read] read a [Module]. [New] makes a [Guest] of it: it has the arguments, the
// environment and the directories that [Options] give it, the standard streams, clocks and
// random numbers, and nothing else of the outside. [Guest.Profile] compiles it for a
// profiler of package sampler/wasm, [Guest.Compile] without one. Then [Guest.Run] runs it
// to its [End], or [Guest.Start] does so beside a session. [Mounts] and [Burst] are values
// of flags.
//
// One goroutine at a time may call the methods of a guest.
package wasi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/rootfs"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// Options are the parts of the outside that a guest has. The zero value is nothing.
type Options struct {
	Args   []string // without the name of the module
	Env    []string // NAME=VALUE
	Mounts []Mount

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Progress       io.Writer // says when compiling takes long; nil: nothing does
}

// Mount is a directory of the host that a guest may use, and is confined to.
type Mount struct {
	Host, Guest string
	ReadOnly    bool
}

// MountError says that a directory cannot be opened.
type MountError struct{ Err error }

func (e MountError) Error() string { return e.Err.Error() }

func (e MountError) Unwrap() error { return e.Err }

// Guest is a module that runs in this process.
type Guest struct {
	module   *Module
	args     []string // without the module's name
	config   wazero.ModuleConfig
	runtime  wazero.Runtime
	progress io.Writer

	profiler *wasm.Profiler // nil: it is not sampled
	compiled wazero.CompiledModule
}

// oldWASI is the module name of WASI before preview 1 had its own, which programs
// of 2019 import.
const oldWASI = "wasi_unstable"

// features are all of wazero 1.12 but threads, which WASI preview 1 does not start.
const features = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst |
	experimental.CoreFeaturesExceptionHandling | experimental.CoreFeaturesTypedFunctionReferences

// New makes a runtime for a module, which is not compiled yet. The guest is started as the
// command line of wazero starts it: its first argument is the base name of its file, its
// clocks and random numbers are real. The error is a MountError for a
// directory that cannot be opened.
func New(ctx context.Context, m *Module, o Options) (*Guest, error) {
	directories, err := open(o.Mounts)
	if err != nil {
		return nil, err
	}
	g := &Guest{
		module: m, args: o.Args, progress: o.Progress,
		runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features)),
	}
	g.config = wazero.NewModuleConfig().WithFSConfig(directories).
		WithArgs(append([]string{filepath.Base(m.Path)}, o.Args...)...).
		WithStdin(o.Stdin).WithStdout(o.Stdout).WithStderr(o.Stderr).
		WithRandSource(rand.Reader).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithOsyield(runtime.Gosched).
		WithStartFunctions() // Run calls it
	for _, v := range o.Env {
		name, value, _ := strings.Cut(v, "=")
		g.config = g.config.WithEnv(name, value)
	}
	for _, name := range []string{wasi_snapshot_preview1.ModuleName, oldWASI} {
		host := g.runtime.NewHostModuleBuilder(name)
		wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(host)
		if _, err := host.Instantiate(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("instantiate %s: %w", name, err), g.runtime.Close(ctx))
		}
	}
	return g, nil
}

// open opens the directories, and confines the guest to them.
func open(mounts []Mount) (wazero.FSConfig, error) {
	c := wazero.NewFSConfig()
	for _, m := range mounts {
		directory, err := rootfs.Open(m.Host)
		if err != nil {
			return nil, MountError{err}
		}
		var mounted experimentalsys.FS = directory
		if m.ReadOnly {
			mounted = directory.ReadOnly()
		}
		c = c.(sysfs.FSConfig).WithSysFSMount(mounted, m.Guest)
	}
	return c, nil
}

// Name returns the path of the module.
func (g *Guest) Name() string { return g.module.Path }

// Profile compiles the guest for a profiler, and returns the source of its samples. If that
// fails, the guest is as before.
func (g *Guest) Profile(ctx context.Context, o wasm.Options) (*Source, error) {
	p := wasm.New(g.runtime, o)
	if err := g.compile(ctx, p); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	g.profiler = p
	return &Source{p, g}, nil
}

// Source samples a guest from inside.
type Source struct {
	*wasm.Profiler
	guest *Guest
}

// Info names the guest as the target.
func (s *Source) Info() sampler.Info {
	info := s.Profiler.Info()
	info.Target = s.guest.target()
	return info
}

// Close frees the profiler of a guest that does not run.
func (s *Source) Close() error { return s.Profiler.Close(context.Background()) }

// Compile compiles the guest to run without being sampled.
func (g *Guest) Compile(ctx context.Context) error { return g.compile(ctx, g.runtime) }

// compiler compiles a module: a runtime, or a profiler that has one.
type compiler interface {
	CompileModule(ctx context.Context, binary []byte) (wazero.CompiledModule, error)
}

// compile makes the guest ready to run, which may take half a minute. First it looks for
// imports that the guest cannot have.
func (g *Guest) compile(ctx context.Context, by compiler) error {
	imports, err := wasm.Imports(g.module.Binary)
	if err == nil { // else compiling says what is wrong
		err = g.checkImports(imports)
		if err != nil {
			return err
		}
	}
	defer sayCompiling(g.progress, g.module, time.After(compilingSlowly))()
	g.compiled, err = by.CompileModule(ctx, g.module.Binary)
	if err != nil {
		return explainFeature(fmt.Errorf("compile module: %w", err))
	}
	return nil
}

// checkImports returns an error for a function that nothing provides.
func (g *Guest) checkImports(imports []wasm.Import) error {
	for _, f := range imports {
		host := g.runtime.Module(f.Module)
		if f.Module == wasm.HostModule || host != nil && host.ExportedFunctionDefinitions()[f.Name] != nil {
			continue
		}
		return advice.Add(fmt.Errorf("module imports %q of %q, which nothing provides", f.Name, f.Module),
			"Only programs for WASI preview 1 can be run (wasm32-wasip1).")
	}
	return nil
}

// explainFeature adds advice to an error of wazero about a disabled feature of WebAssembly:
// all features that wazero can run are enabled.
func explainFeature(err error) error {
	text := err.Error()
	disabled := strings.Contains(text, "feature") && (strings.Contains(text, "is disabled") || strings.Contains(text, "not enabled")) // wazero 1.12
	switch {
	case !disabled:
		return err
	case strings.Contains(text, "threads"):
		return advice.Add(err, "No flag enables threads: programs for WASI preview 1 have one. Build the module without\n"+
			"atomic instructions and shared memory.")
	}
	return advice.Add(err, "No flag enables it: ccmapd enables all features that wazero can run. Build the module without it.")
}

// compilingSlowly is how long a module may compile before that is said.
const compilingSlowly = 1500 * time.Millisecond

// sayCompiling says on w that a module is being compiled, as soon as slow is ready and until
// stop is called. On a terminal the line goes away then.
func sayCompiling(w io.Writer, m *Module, slow <-chan time.Time) (stop func()) {
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
		line := fmt.Sprintf("Compiling %s of %s, which may take a minute %s", terminal.Printable(filepath.Base(m.Path)), figure.Bytes(int64(len(m.Binary))), terminal.Ellipsis)
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

// Entry is the function where WASI programs begin. Libraries lack it.
const Entry = "_start"

// Run runs the guest to its end. It must be compiled.
func (g *Guest) Run(ctx context.Context) End {
	m, err := g.runtime.InstantiateModule(ctx, g.compiled, g.config)
	if err != nil {
		return endOf(fmt.Errorf("instantiate module: %w", err))
	}
	if start := m.ExportedFunction(Entry); start != nil {
		_, err = start.Call(ctx)
	}
	end := endOf(err)
	end.Err = errors.Join(end.Err, m.Close(ctx))
	return end
}

// IsProgram reports whether a compiled guest has anything to run but a start function.
func (g *Guest) IsProgram() bool { return g.compiled.ExportedFunctions()[Entry] != nil }

// exit ends a sampled guest at its next safe point, with an exit code. Any goroutine may
// call it.
func (g *Guest) exit(code uint32) { g.profiler.Exit(code) }

// finish ends the session of a sampled guest that has ended.
func (g *Guest) finish(reason string) { g.profiler.Finish(reason) }

// Close frees the runtime, and the profiler if there is one. The guest must have ended.
func (g *Guest) Close(ctx context.Context) error {
	if g.profiler == nil {
		return g.runtime.Close(ctx)
	}
	return errors.Join(g.profiler.Close(ctx), g.runtime.Close(ctx))
}

// End is how a guest has ended.
type End struct {
	Code       int   // if it exited
	Err        error // its trap, or why it was not started; usually nil if it exited
	Trapped    bool
	NotStarted bool
}

// The text of a trap has a title in its first line, and one above the guest's stack (wazero
// 1.12, internal/wasmdebug). If a host function panicked, the first is missing. Errors of a
// module that cannot be instantiated have neither.
const (
	trapTitle  = "wasm error: "
	stackTitle = "wasm stack trace:"
)

// endOf reads the error that a call of a guest has returned.
func endOf(err error) End {
	var exit *sys.ExitError
	switch {
	case err == nil:
		return End{}
	case errors.As(err, &exit):
		return End{Code: int(exit.ExitCode())}
	case strings.Contains(err.Error(), stackTitle):
		return End{Err: err, Trapped: true}
	}
	return End{Err: err, NotStarted: true}
}

// reason says how the guest has ended, for people.
func (e End) reason() string {
	if e.Err == nil {
		return fmt.Sprintf("module exited with code %d", e.Code)
	}
	line, _, _ := strings.Cut(e.Err.Error(), "\n")
	if !e.Trapped {
		return "module was not started: " + line
	}
	if _, trap, found := strings.Cut(line, trapTitle); found {
		line = trap
	}
	return "module trapped: " + line
}

// Try compiles an empty module for the profiler, and returns why that fails.
func Try() error {
	ctx := context.Background()
	g, err := New(ctx, &Module{Binary: []byte(moduleMagic + "\x01\x00\x00\x00")}, Options{})
	if err != nil {
		return err
	}
	_, err = g.Profile(ctx, wasm.Options{})
	return errors.Join(err, g.Close(ctx))
}

// wazeroModule is the path of wazero among the modules of this program.
const wazeroModule = "github.com/tetratelabs/wazero"

// wazeroVersion names the runtime of guests, for example "wazero 1.12.0 (compiler)".
func wazeroVersion() string {
	version := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if m.Path == wazeroModule {
				version = " " + strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "wazero" + version + " (compiler)"
}
