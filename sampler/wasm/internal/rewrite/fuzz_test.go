package rewrite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// maxSeed keeps the corpus to modules that mutate quickly, in bytes.
const maxSeed = 2048

// addSeeds adds the first module of the scripts of v2, which has those of v1, and of the proposals. Of
// the scripts of vectors, whose instructions are copied, it takes a few: a short run must read all
// seeds, and still fuzz.
func addSeeds(f *testing.F) {
	seeds := []*rewrite.Options{&marked, &stubbed, &exact}
	for _, s := range suites {
		if s.name == "v1" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(suiteDir(f, s.name), "*.0.wasm"))
		if err != nil || len(files) == 0 {
			f.Fatalf("no modules of %s: %v", s.name, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			vectors := strings.HasPrefix(filepath.Base(file), "simd_") && !strings.HasPrefix(filepath.Base(file), "simd_load")
			if len(data) <= maxSeed && !vectors {
				f.Add(data, flagsOf(seeds[len(data)%len(seeds)]))
			}
		}
	}
}

// optionsOf turns flags into options.
func optionsOf(flags byte) rewrite.Options {
	return rewrite.Options{
		MultiValue: flags&1 != 0, TailCalls: flags&2 != 0, Marks: flags&4 != 0,
		Calls: flags&8 != 0, Exact: flags&16 != 0, Points: flags&32 != 0, Announce: announced,
	}
}

func flagsOf(o *rewrite.Options) (flags byte) {
	for i, set := range []bool{o.MultiValue, o.TailCalls, o.Marks, o.Calls, o.Exact, o.Points} {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}

// FuzzRewrite: a module is refused, or wazero accepts its rewritten form if it accepts
// the original. Then the functions give the same results and traps.
func FuzzRewrite(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, binary []byte, flags byte) {
		m, err := rewrite.Rewrite(binary, optionsOf(flags))
		if err != nil {
			if !errors.Is(err, rewrite.ErrRefused) {
				t.Fatalf("error is no refusal: %v", err)
			}
			return
		}
		checkOffsets(t, m)
		after := newExplorer(t, m.Binary)
		defer after.close()
		before := newExplorer(t, binary)
		defer before.close()
		if before.err != nil {
			return
		}
		if after.err != nil {
			t.Fatalf("wazero takes the original only: %v", after.err)
		}
		for _, name := range before.functions() {
			got, late := after.call(name)
			if late {
				continue // the original would take as long, and nothing stops it
			}
			if want, _ := before.call(name); got != want {
				t.Errorf("%s: %s, rewritten %s", name, want, got)
			}
		}
	})
}

// checkOffsets asks for the origin of every offset.
func checkOffsets(t *testing.T, m *rewrite.Module) {
	for offset := range uint64(len(m.Binary)) {
		f, _, ok := m.Original(offset)
		if ok && (int(f) < m.Imported || int(f) >= m.Imported+len(m.Functions)) {
			t.Fatalf("offset %d: function %d of %d", offset, f, m.Imported+len(m.Functions))
		}
	}
}

// An explorer calls the functions of a module, each in a new instance. Every cycle of a
// rewritten module passes safe points, so the explorer can stop it there.
type explorer struct {
	t        *testing.T
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	err      error // of the compilation
	left     int   // safe points that the call may still pass
}

const (
	maxPoints = 10_000 // of a call
	maxCalls  = 8      // of a module
)

var errLate = errors.New("stopped at a safe point")

func newExplorer(t *testing.T, module []byte) *explorer {
	ctx := context.Background()
	features := api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesThreads | experimental.CoreFeaturesExtendedConst
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features).WithMemoryLimitPages(64)
	e := &explorer{t: t, runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	_, err := e.runtime.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(e.sample).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	e.compiled, e.err = e.runtime.CompileModule(ctx, module)
	return e
}

func (e *explorer) close() { e.runtime.Close(context.Background()) }

// sample leaves the mark set, so that it is called at every safe point.
func (e *explorer) sample(_, _ uint32) {
	if e.left--; e.left < 0 {
		panic(errLate)
	}
}

// functions are the first exported functions without arguments.
func (e *explorer) functions() (names []string) {
	for name, f := range e.compiled.ExportedFunctions() {
		if len(f.ParamTypes()) == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxCalls)]
}

// call returns a function's outcome, or that it was stopped.
func (e *explorer) call(name string) (text string, late bool) {
	ctx := context.Background()
	e.left = maxPoints
	m, err := e.runtime.InstantiateModule(ctx, e.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return "not instantiated", errors.Is(err, errLate)
	}
	defer m.Close(ctx)
	f := m.ExportedFunction(name)
	results, err := f.Call(ctx)
	return describe(f.Definition().ResultTypes(), results, err), errors.Is(err, errLate)
}
