package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

const (
	compileTime = 30 * time.Second       // of CPU; then the worker is killed
	graceTime   = 300 * time.Millisecond // of CPU, for the context to end a call in plain wazero, until the worker is killed
	longGrace   = 10 * time.Second       // the same under the profiler
	mostPages   = 256                    // of a mutant's memory
	exportTime  = time.Millisecond       // of CPU, plain, for calls of an export
	leastCalls  = 6                      // of an export
	mostCalls   = 200
	mostExports = 6  // that are called
	mostDepth   = 10 // of calls back
)

// arguments are given to an export's calls, by turns. There is no 0, because a loop that counts down from it
// takes 2³² turns.
var arguments = []uint64{20, 1, 19, 2, 7, 3}

// answer has the results of a mutant.
type answer struct {
	refused    string   // why it was not compiled
	calls      []int    // of each export
	said       []string // results, first lines of traps, exit codes, hashes of output and memory
	trapped    bool
	late       bool // said ends before the call that does not
	overflowed bool // a stack; said ends there
	panicked   string
	samples    uint64
	took       time.Duration
	held       uint64
}

// observe compiles and runs a mutant, plain where there are no options. It makes the planned calls of each
// export; without a plan it finds out how many are enough.
func observe(mutant []byte, most time.Duration, planned []int, o *wasm.Options) (a answer) {
	runtime.LockOSThread() // which has a clock
	defer runtime.UnlockOSThread()
	began := threadTime(0)
	forgetPeak()
	defer func() {
		if p := recover(); p != nil {
			a.panicked = fmt.Sprint("panic: ", p)
		}
		a.took, a.held = threadTime(0)-began, peak()
	}()
	w := &mutantWorld{answer: &a, planned: planned}
	ctx := context.Background()
	w.runtime = wazero.NewRuntimeWithConfig(ctx, mutantConfig(wazero.NewRuntimeConfigCompiler()).WithCloseOnContextDone(true))
	defer w.runtime.Close(ctx)
	w.provide(ctx)
	compile, grace := w.runtime.CompileModule, graceTime
	if o != nil {
		profiler, stop := w.profile(ctx, *o)
		defer stop()
		compile, grace = profiler.CompileModule, longGrace
	}
	deadline := newDeadline(compileTime)
	defer deadline.end()
	compiled, err := compile(ctx, mutant)
	if err != nil {
		a.refused = err.Error()
		return a
	}
	deadline.set(most + grace)
	ctx, cancel := withinCPU(ctx, most)
	defer cancel()
	w.run(ctx, compiled)
	return a
}

// mutantConfig is the same for all runtimes of mutants.
func mutantConfig(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.WithMemoryLimitPages(mostPages).WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst)
}

// mutantWorld is the runtime of a mutant.
type mutantWorld struct {
	*answer
	runtime wazero.Runtime
	planned []int // calls of each export; nil: as many as are enough
	depth   int
}

// profile begins a session. Stop ends it, and checks its map.
func (w *mutantWorld) profile(ctx context.Context, o wasm.Options) (profiler *wasm.Profiler, stop func()) {
	engine := w.runtime
	if !o.Exact {
		engine = markingRuntime{engine, func() { profiler.Mark(time.Microsecond) }}
	}
	profiler = wasm.New(engine, o)
	session, err := manager.Start(ctx, manager.Config{Source: profiler, FixedInterval: true})
	if err != nil {
		panic(err)
	}
	return profiler, func() {
		report, err := session.Stop()
		if err := errors.Join(err, report.Snapshot.CheckValid()); err != nil {
			w.panicked = err.Error()
		}
		if n := report.Source.Counts[sampler.Panicked]; n > 0 {
			w.panicked = fmt.Sprint("threads whose walker panicked: ", n)
		}
		w.samples = report.Source.Counts[sampler.Samples]
	}
}

// provide instantiates the imports of mutants.
func (w *mutantWorld) provide(ctx context.Context) {
	wasi_snapshot_preview1.MustInstantiate(ctx, w.runtime)
	_, err := w.runtime.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(w.callBack).Export("callback").Instantiate(ctx)
	if err != nil {
		panic(err)
	}
}

// callBack calls the guest in turn, and lets it go on after a trap.
func (w *mutantWorld) callBack(ctx context.Context, guest api.Module, n int32) {
	f := guest.ExportedFunction("reenter")
	if f == nil || len(f.Definition().ParamTypes()) != 1 || w.depth == mostDepth {
		return
	}
	w.depth++
	w.call(ctx, guest, "reenter", uint64(uint32(n)))
	w.depth--
}

// run instantiates a mutant and calls its exports.
func (w *mutantWorld) run(ctx context.Context, compiled wazero.CompiledModule) {
	var stdout, stderr bytes.Buffer
	m, err := w.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithArgs("mutant", "0").WithEnv("A", "b").WithStdin(strings.NewReader("in\n")).WithStdout(&stdout).WithStderr(&stderr))
	w.say(ctx, "instantiated", err)
	if err != nil {
		return
	}
	defer m.Close(context.Background())
	for i, name := range callable(m) {
		if m.IsClosed() {
			break
		}
		w.callOften(ctx, m, i, name)
	}
	if w.overflowed || w.late {
		return
	}
	w.said = append(w.said, fmt.Sprintf("output %x %x", sha256.Sum256(stdout.Bytes()), sha256.Sum256(stderr.Bytes())))
	if mem := m.Memory(); mem != nil && !reflect.ValueOf(mem).IsNil() { // wazero gives a nil pointer
		b, _ := mem.Read(0, mem.Size())
		w.said = append(w.said, fmt.Sprintf("memory %d %x", len(b), sha256.Sum256(b)))
	}
}

// callOften calls the export of a number as often as it is planned, or until that took enough time.
func (w *mutantWorld) callOften(ctx context.Context, m api.Module, export int, name string) {
	types := m.ExportedFunctionDefinitions()[name].ParamTypes()
	began, n := threadTime(0), 0
	enough := func() bool { return n == mostCalls || n >= leastCalls && threadTime(0)-began > exportTime }
	if w.planned != nil {
		enough = func() bool { return export >= len(w.planned) || n == w.planned[export] }
	}
	for ; !m.IsClosed() && !enough(); n++ {
		w.call(ctx, m, name, slices.Repeat(arguments[n%len(arguments):][:1], len(types))...)
	}
	w.calls = append(w.calls, n)
}

// callable names the first exports that take numbers only.
func callable(m api.Module) (names []string) {
	for name, f := range m.ExportedFunctionDefinitions() {
		if !slices.ContainsFunc(f.ParamTypes(), func(t api.ValueType) bool { return !isNumber(t) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostExports)]
}

func isNumber(t api.ValueType) bool { return t >= api.ValueTypeF64 && t <= api.ValueTypeI32 }

// call calls an export, and notes the results up to the first that is no number.
func (w *mutantWorld) call(ctx context.Context, m api.Module, name string, args ...uint64) {
	f := m.ExportedFunction(name)
	results, err := f.Call(ctx, args...)
	what := name
	for i, t := range f.Definition().ResultTypes() {
		if err != nil || !isNumber(t) {
			break
		}
		what += fmt.Sprintf(" %#x", results[i])
	}
	w.say(ctx, what, err)
}

// startIndex is in the error of a start function. The rewriting moves functions.
var startIndex = regexp.MustCompile(`start function\[\d+\]`)

// unresolved is the error of an import that is missing or of another type. Where several
// are, wazero 1.12 names any of them: it goes through the modules in the order of a map.
var unresolved = regexp.MustCompile(`^(module\[.*\] not instantiated|".*" is not exported in module ".*"|export ".*" in module ".*" is a .*|import \w+\[.*)$`)

// say notes a step, and the first line of its error or its exit code.
func (w *mutantWorld) say(ctx context.Context, what string, err error) {
	w.late = w.late || ctx.Err() != nil
	if w.overflowed || w.late {
		return
	}
	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit):
		what += fmt.Sprint(": exit ", exit.ExitCode())
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		first = unresolved.ReplaceAllString(first, "an import is missing or of another type")
		what += ": " + startIndex.ReplaceAllString(first, "start function")
		w.trapped = true
		w.overflowed = strings.Contains(first, "stack overflow")
	}
	w.said = append(w.said, what)
}

// markingRuntime marks a guest whenever it is entered, so that every call has samples: the profiler forgets
// marks that come before, and most calls end sooner than any interval.
type markingRuntime struct {
	wazero.Runtime
	mark func()
}

func (r markingRuntime) CompileModule(ctx context.Context, binary []byte) (wazero.CompiledModule, error) {
	return r.Runtime.CompileModule(markingContext{ctx, r.mark}, binary)
}

// markingContext replaces the factory of listeners by one of those that mark, too.
type markingContext struct {
	context.Context
	mark func()
}

func (c markingContext) Value(key any) any {
	value := c.Context.Value(key)
	factory, ok := value.(experimental.FunctionListenerFactory)
	if !ok {
		return value
	}
	return experimental.FunctionListenerFactoryFunc(func(f api.FunctionDefinition) experimental.FunctionListener {
		if l := factory.NewFunctionListener(f); l != nil {
			return markingListener{l, c.mark}
		}
		return nil
	})
}

// markingListener marks after the profiler knows that the guest is entered.
type markingListener struct {
	experimental.FunctionListener
	mark func()
}

func (l markingListener) Before(ctx context.Context, m api.Module, f api.FunctionDefinition, params []uint64, stack experimental.StackIterator) {
	l.FunctionListener.Before(ctx, m, f, params, stack)
	l.mark()
}
